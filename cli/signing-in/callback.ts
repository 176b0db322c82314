import type { Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { EXIT, UsageError } from '#client/usage-error.ts';
import { isLoopbackHost } from '#core/http/loopback.ts';

/** Port that clients of the platform have always used. */
const PORT = 8374;

/** Waits on this machine for the browser in which the user approves the sign-in (RFC 8252, section 7.3). */
export interface Callback {
  readonly port: number;
  /** Resolves to the token for this state. Throws UsageError if the user denies. */
  token(state: string): Promise<string>;
  /** Resolves to the query of the redirect with this state, whatever it says. */
  query(state: string): Promise<string>;
  close(): void;
}

export async function waitForCallback(): Promise<Callback> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  // Prevents an unhandled rejection before the first `await`.
  promise.catch(() => {});
  let expected: string | undefined;
  let wantsQuery = false;
  // A static import would load Node's whole HTTP client at the start of every command of the bundle.
  const { createServer } = await import('node:http');
  const server = createServer((request, response) => {
    const asked = URL.parse(request.url ?? '/', 'http://127.0.0.1');
    // Other programs on this machine may send requests, too, and pages may send a token of another user.
    const isOurs = asked?.pathname === '/callback' && expected !== undefined;
    if (!isOurs || asked.searchParams.get('state') !== expected || !isLoopbackHost(request.headers.host ?? '')) {
      return answer(response, 404, 'Not found.');
    }
    if (wantsQuery) {
      answer(response, 200, 'You can close this page: the command line has the answer.');
      return resolve(asked.search.slice(1));
    }
    const token = asked.searchParams.get('token');
    answer(response, 200, token ? 'Signed in. You can close this page.' : 'Sign-in denied. You can close this page.');
    if (token) resolve(token);
    else reject(new UsageError('The sign-in was denied in the browser.', { exitCode: EXIT.failed }));
  });
  await listen(server, PORT).catch(() => listen(server, 0));
  return {
    port: (server.address() as AddressInfo).port,
    token(state) {
      expected = state;
      return promise;
    },
    query(state) {
      wantsQuery = true;
      expected = state;
      return promise;
    },
    close() {
      server.close();
      server.closeIdleConnections();
    },
  };
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => {
      server.off('error', reject);
      resolve();
    });
  });
}

function answer(response: ServerResponse, status: number, text: string): void {
  response
    .writeHead(status, {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'",
      'cache-control': 'no-store',
      connection: 'close',
    })
    .end(
      `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark"><title>Agent Platform</title><body style="font: 16px/1.5 system-ui, sans-serif; max-width: 30rem; margin: 3rem auto; padding: 0 1rem"><h1>Agent Platform</h1><p>${text}</p>`,
    );
}
