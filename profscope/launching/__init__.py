"""Which binary runs this launch?"""
