"""Which launches are recorded, with what, and what is known of them?"""
