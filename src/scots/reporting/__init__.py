"""What turns numbers into pictures and pages."""
