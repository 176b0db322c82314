/**
 * The closed list of error codes: status and whether a client may retry follow from the code
 * (`docs/interface/errors.md#codes`).
 */
const CODES = {
  INVALID_INPUT: { status: 400, retryable: false },
  MISSING_INPUT_FIELDS: { status: 400, retryable: false },
  MISSING_SECRETS: { status: 400, retryable: false },
  LLM_KEY_REQUIRED: { status: 400, retryable: false },
  MAX_HOPS_TOO_LOW: { status: 400, retryable: false },
  UNAUTHORIZED: { status: 401, retryable: false },
  INSUFFICIENT_CREDITS: { status: 402, retryable: false },
  FORBIDDEN: { status: 403, retryable: false },
  DOWNLOAD_DISABLED: { status: 403, retryable: false },
  PAID_AGENT_SERVER_ONLY: { status: 403, retryable: false },
  AGENT_NOT_CALLABLE: { status: 403, retryable: false },
  DEPENDENCY_NOT_ALLOWED: { status: 403, retryable: false },
  MAX_HOPS_EXCEEDED: { status: 403, retryable: false },
  MISSING_BILLING_ORG: { status: 403, retryable: false },
  NOT_FOUND: { status: 404, retryable: false },
  METHOD_NOT_ALLOWED: { status: 405, retryable: false },
  CONFLICT: { status: 409, retryable: false },
  DEPENDENCY_CYCLE: { status: 409, retryable: false },
  RUN_CANCELLED: { status: 409, retryable: false },
  DOCUMENT_TOO_LARGE: { status: 413, retryable: false },
  UNSUPPORTED_TYPE: { status: 415, retryable: false },
  UNPROCESSABLE: { status: 422, retryable: false },
  RATE_LIMITED: { status: 429, retryable: true },
  LLM_RATE_LIMITED: { status: 429, retryable: true },
  BUDGET_EXCEEDED: { status: 429, retryable: false },
  STORAGE_QUOTA_EXCEEDED: { status: 429, retryable: false },
  INTERNAL_ERROR: { status: 500, retryable: true },
  SANDBOX_ERROR: { status: 500, retryable: false },
  LLM_ERROR: { status: 502, retryable: true },
  TIMEOUT: { status: 504, retryable: true },
} as const;

export type ErrorCode = keyof typeof CODES;
export const ERROR_CODES = Object.keys(CODES) as ErrorCode[];

/** HTTP status of an answer with this error; 200 for `null`, which means no error. */
export const httpStatusOf = (code: ErrorCode | null): number => (code === null ? 200 : CODES[code].status);
export const isRetryable = (code: ErrorCode): boolean => CODES[code].retryable;

/** Further members of `error` that clients read (`docs/interface/errors.md#error-envelope`). */
export interface ErrorExtra {
  /** How to fix the error. */
  readonly hint?: string;
  /** `SANDBOX_ERROR`: whether the author's code failed or its setup. */
  readonly category?: 'code_error' | 'setup_error';
  /**
   * `UNPROCESSABLE` of a tool loop: the limit that it reached, or `stuck` if it repeated itself. `INTERNAL_ERROR`:
   * `interrupted` if its sandbox was lost.
   */
  readonly cause?: 'max_turns' | 'max_cost_usd' | 'stuck' | 'interrupted';
  /** Explanation that clients show instead of `message`. */
  readonly user_message?: string;
  readonly stderr_tail?: string;
  /** Output of a failed program. */
  readonly details?: {
    readonly exit_code?: number;
    /** Beginning and end of stderr, 4 KB in total. */
    readonly stderr?: string;
    /** Path of the run's log. */
    readonly log: string;
  };
  /** Set where the code is retryable in general but this error is not. */
  readonly is_retryable?: false;
  /** Seconds. */
  readonly suggested_wait_time?: number;
}

/** The only error that crosses layers. Test its `code`: `instanceof` fails between bundles. */
export class PlatformError extends Error {
  readonly code: ErrorCode;
  readonly extra: ErrorExtra;

  constructor(code: ErrorCode, message: string, extra: ErrorExtra = {}) {
    super(message);
    this.name = 'PlatformError';
    this.code = code;
    this.extra = extra;
  }
}

/** Error of a call that a rule of its agent refuses: it is not tried again, as calls are that find no room. */
export class RefusedByRuleError extends PlatformError {
  readonly isFinal = true;
}

export const isRefusedByRule = (error: unknown): boolean =>
  typeof error === 'object' && error !== null && (error as Partial<RefusedByRuleError>).isFinal === true;

export function isPlatformError(error: unknown): error is PlatformError {
  return (
    error instanceof Error &&
    'code' in error &&
    typeof error.code === 'string' &&
    error.code in CODES &&
    'extra' in error
  );
}

/**
 * A service of the host throttled a request, even after retries. The request had no effect. Clients get a time to
 * retry after (see {@link shownError}).
 */
export class HostBusyError extends Error {
  readonly code = 'HOST_BUSY';
}

export const isHostBusy = (error: unknown): boolean => hasCode(error, 'HOST_BUSY');

/** Services of the host throttle requests per second. */
const BUSY_WAIT_SECONDS = 2;

/**
 * Converts any error to the one that clients see. `unexpected` is the message for errors that are neither ours nor a
 * busy host's.
 */
export function shownError(error: unknown, unexpected: string): PlatformError {
  if (isPlatformError(error)) return error;
  if (!isHostBusy(error)) return new PlatformError('INTERNAL_ERROR', unexpected);
  return new PlatformError(
    'RATE_LIMITED',
    `The platform is too busy for this request at the moment: wait ${BUSY_WAIT_SECONDS} seconds and try again.`,
    { suggested_wait_time: BUSY_WAIT_SECONDS },
  );
}

/** Whether an error has this `code`: a PlatformError or an error of Node. */
export function hasCode(error: unknown, code: string): boolean {
  return typeof error === 'object' && error !== null && 'code' in error && error.code === code;
}
