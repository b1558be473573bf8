"""Which spans are these bytes?"""
