/** Exit statuses for errors (`docs/cli.md#exit-codes`). */
export const EXIT = {
  failed: 1,
  unauthorized: 2,
  forbidden: 3,
  notFound: 4,
  badInput: 5,
  rateLimited: 6,
  timeout: 7,
  server: 8,
  network: 9,
  /** An evaluation decides nothing. */
  inconclusive: 10,
  interrupted: 130,
  /** Status of a program that was ended by SIGPIPE. */
  notRead: 141,
} as const;

/** An error of the CLI itself, such as bad arguments or missing files. */
export class UsageError extends Error {
  readonly hint: string | undefined;
  readonly exitCode: number;

  constructor(message: string, { hint, exitCode = EXIT.badInput }: { hint?: string; exitCode?: number } = {}) {
    super(message);
    this.name = 'UsageError';
    this.hint = hint;
    this.exitCode = exitCode;
  }
}
