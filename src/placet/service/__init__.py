"""What one machine and a fleet share: driving runs, the embedded engine, the deploy check, the audit."""
