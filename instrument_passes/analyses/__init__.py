"""What passes ask of a module before they change it."""
