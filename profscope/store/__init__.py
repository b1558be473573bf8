"""In which form is a session kept in a file that grows, and read again?"""
