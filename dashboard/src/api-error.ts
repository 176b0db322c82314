/** Error response of an operation, or a missing response. */
export class ApiError extends Error {
  /** HTTP status; 0 if there was no response. */
  readonly status: number;
  readonly code: string;
  /** Suggested fix. */
  readonly hint: string | undefined;
  /** Page about the error's code. */
  readonly docsUrl: string | undefined;
  readonly requestId: string | undefined;
  /** Seconds to wait after RATE_LIMITED. */
  readonly retryAfter: number | undefined;
  /** Complete `error` member of the response. */
  readonly detail: Readonly<Record<string, unknown>>;

  constructor(status: number, body?: unknown, headers?: Headers) {
    const { error = {}, metadata = {} } = (body ?? {}) as Record<string, Record<string, unknown> | undefined>;
    super(
      String(
        error.message ??
          (status === 0 ? 'The platform is not responding.' : `The platform responded with HTTP ${status}.`),
      ),
    );
    this.name = 'ApiError';
    this.status = status;
    this.code = String(error.code ?? (status === 0 ? 'NO_ANSWER' : 'UNKNOWN'));
    this.hint = error.hint as string | undefined;
    this.docsUrl = error.docs_url as string | undefined;
    this.requestId = (metadata.request_id as string | undefined) ?? headers?.get('x-request-id') ?? undefined;
    const wait = Number(headers?.get('retry-after') ?? Number.NaN);
    this.retryAfter = Number.isFinite(wait) ? wait : undefined;
    this.detail = error;
  }
}

/** Whether an operation failed because the thing that it names does not exist, or is not visible to the user. */
export const isNotFound = (error: unknown): error is ApiError => error instanceof ApiError && error.status === 404;
