"""What do the tables say?"""
