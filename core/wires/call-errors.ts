/** Errors of a call before its run begins. A protocol reports later ones in its own form. */
export const CALL_ERRORS = [
  'MISSING_INPUT_FIELDS',
  'MISSING_SECRETS',
  'LLM_KEY_REQUIRED',
  'MAX_HOPS_TOO_LOW',
  'CONFLICT',
  'BUDGET_EXCEEDED',
  'INSUFFICIENT_CREDITS',
  'STORAGE_QUOTA_EXCEEDED',
  'NOT_FOUND',
  'UNPROCESSABLE',
  'TIMEOUT',
] as const;
