/** What a process that ends with an error says by its status (`docs/cli.md#exit-codes`). */
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
  interrupted: 130,
  /** As of a program that SIGPIPE has ended. */
  notRead: 141,
} as const;

/** An error of the command line itself: bad arguments, files that are missing. */
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
