import { CommanderError } from '@commander-js/extra-typings';
import { EXIT, UsageError } from '#client/usage-error.ts';
import type { ApiError } from '#core/api/client.ts';
import type { Connection } from '../signing-in/connection.ts';
import type { Cli } from './cli.ts';
import { missingSecretsOf, withCommands } from './hints.ts';

/** A failure as shown to users: what happened, what to do next, and what to quote in a support request. */
export interface Failure {
  readonly exitCode: number;
  readonly code: string;
  readonly message: string;
  readonly hint?: string;
  /** Page about the error's code. */
  readonly docsUrl?: string;
  readonly requestId?: string;
  /** The `error` member of the API response. */
  readonly detail?: Readonly<Record<string, unknown>>;
}

/** `platform`: the contacted platform. */
export async function failureOf(
  error: unknown,
  platform: Pick<Connection, 'url' | 'mismatch'> | undefined,
): Promise<Failure> {
  const { url, mismatch } = platform ?? {};
  // Compared by name: only commands that contact the platform load the client with its route table.
  if ((error as Error)?.name === 'ApiError') return ofApi(error as ApiError, mismatch);
  if (error instanceof UsageError) {
    return { exitCode: error.exitCode, code: 'USAGE', message: error.message, hint: error.hint };
  }
  if (error instanceof CommanderError) {
    const isFine = error.exitCode === 0;
    const message = error.message.replace(/^error: /, '');
    return { exitCode: isFine ? 0 : EXIT.badInput, code: 'USAGE', message };
  }
  const cause = (error as { cause?: { code?: string; message?: string } } | undefined)?.cause;
  if ((error as Error)?.name === 'TimeoutError' || TOO_LATE.has(cause?.code ?? '')) {
    return {
      exitCode: EXIT.timeout,
      code: 'TIMEOUT',
      message: `The platform at ${url} did not answer in time.`,
      hint: 'The request may have succeeded anyway. Use --timeout SECONDS to wait longer.',
    };
  }
  if (error instanceof TypeError && error.message === 'fetch failed') {
    return {
      exitCode: EXIT.network,
      code: 'NETWORK',
      message: `Cannot connect to ${url}: ${cause?.code ?? cause?.message ?? 'the connection failed'}.`,
      hint:
        mismatch ??
        'Start a platform with `platform start`, or choose another one with PLATFORM_API_URL or `platform switch`.',
    };
  }
  if (error instanceof TypeError && error.message === 'terminated') {
    return { exitCode: EXIT.network, code: 'NETWORK', message: `The connection to ${url} was lost.` };
  }
  return { exitCode: EXIT.failed, code: 'FAILED', message: error instanceof Error ? error.message : String(error) };
}

/** Says a failure as lines for a terminal. */
export function failureText({ output }: Pick<Cli, 'output'>, failure: Failure): string {
  const { message, hint, docsUrl, code, requestId } = failure;
  const lines = [`${output.style('red', 'error:')} ${message}`];
  if (hint !== undefined) lines.push(`${output.style('cyan', 'hint:')}  ${hint}`);
  if (docsUrl !== undefined) lines.push(`${output.style('cyan', 'docs:')}  ${docsUrl}`);
  const quoted = [code === 'USAGE' || code === 'FAILED' ? undefined : code, requestId].filter(Boolean).join(' ');
  if (quoted !== '') lines.push(output.style('dim', quoted));
  return lines.join('\n');
}

/** Node's own timeouts of five minutes. */
const TOO_LATE = new Set(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT']);

async function ofApi(error: ApiError, mismatch: string | undefined): Promise<Failure> {
  const { status, code, message, detail, requestId } = error;
  const secrets = missingSecretsOf(code, message);
  const hint =
    status === 401 && mismatch !== undefined
      ? mismatch
      : typeof detail.hint === 'string'
        ? await withCommands(detail.hint, secrets)
        : NO_ROUTE.test(message)
          ? OLDER
          : HINTS[code];
  const own = { message: await withCommands(message, secrets), hint };
  const docsUrl = typeof detail.docs_url === 'string' ? detail.docs_url : undefined;
  return { exitCode: exitCodeOf(status), code, ...own, docsUrl, requestId, detail };
}

/** Message of the platform for a request that matches no route. */
const NO_ROUTE = /^There is nothing at /;
const OLDER = 'The platform may be older than this CLI: upgrade it, or use the CLI of its release.';

const HINTS: { readonly [code: string]: string } = {
  UNAUTHORIZED: 'Run `platform login` to sign in, or `platform whoami` to see which key is used.',
  LLM_KEY_REQUIRED: 'Store the key of a model provider with `platform secrets set ANTHROPIC_API_KEY`.',
  INSUFFICIENT_CREDITS: 'Buy credits with `platform billing add`.',
};

function exitCodeOf(status: number): number {
  if (status === 401) return EXIT.unauthorized;
  if (status === 402 || status === 403) return EXIT.forbidden;
  if (status === 404) return EXIT.notFound;
  if (status === 408 || status === 504) return EXIT.timeout;
  if (status === 429) return EXIT.rateLimited;
  if (status >= 500) return EXIT.server;
  return status === 400 || status === 413 || status === 415 || status === 422 ? EXIT.badInput : EXIT.failed;
}
