/** Notes in the answer of a successful call (`spec.md` *Errors*, warning codes). */
export interface Warning {
  readonly code: 'LOW_CONFIDENCE' | 'TRUNCATED' | 'DEPRECATED_FIELD' | 'VALIDATION_SKIPPED';
  readonly field?: string;
  readonly message: string;
}
