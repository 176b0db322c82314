import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import {
  createMcpHandler,
  hostHeaderValidationResponse,
  localhostAllowedHostnames,
  localhostAllowedOrigins,
  originValidationResponse,
} from '@modelcontextprotocol/server';
import { UsageError } from '#client/usage-error.ts';
import type { Cli } from '../shared/cli.ts';
import { mcpServer } from './server.ts';

const PATH = '/mcp';
const TOKEN = /^[\x21-\x7e]{32,200}$/;

export interface McpHttpServer {
  readonly url: string;
  /** Token that clients send as `Authorization: Bearer`. */
  readonly token: string;
  close(): Promise<void>;
}

/**
 * Serves the tools over streamable HTTP on this machine only. Requests need the token. Requests that a web page may
 * have sent, with another host name or origin, are rejected (MCP's rules against DNS rebinding). Throws UsageError for
 * a token that is too short and a port that is in use.
 *
 * @param port 0 for any free port
 * @param given the token. @default - a new one
 */
export async function serveMcpHttp(cli: Cli, port: number, given: string | undefined): Promise<McpHttpServer> {
  if (given !== undefined && !TOKEN.test(given)) {
    throw new UsageError('PLATFORM_MCP_TOKEN must be 32 to 200 characters without spaces.');
  }
  const token = given ?? randomBytes(32).toString('base64url');
  const handler = createMcpHandler(() => mcpServer(cli), { onerror: ({ message }) => cli.output.warn(message) });
  const answer = async (request: Request): Promise<Response> => {
    const refused =
      hostHeaderValidationResponse(request, localhostAllowedHostnames()) ??
      originValidationResponse(request, localhostAllowedOrigins());
    if (refused) return refused;
    if (new URL(request.url).pathname !== PATH) return new Response(`The server is at ${PATH}.\n`, { status: 404 });
    if (!isSame(request.headers.get('authorization') ?? '', `Bearer ${token}`)) {
      const headers = { 'www-authenticate': 'Bearer' };
      return new Response('Send the token as Authorization: Bearer.\n', { status: 401, headers });
    }
    return handler.fetch(request);
  };
  const server = createServer((incoming, outgoing) => {
    void pass(incoming, outgoing, answer).catch((error: Error) => {
      // A client that disconnects is not an error.
      if (!outgoing.destroyed) cli.output.warn(error.message);
      outgoing.destroy();
    });
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`Port ${port} cannot be used: ${error.code}.`, { hint: 'Use --port 0 for any free port.' });
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${PATH}`,
    token,
    async close() {
      server.close();
      await handler.close();
      server.closeAllConnections();
    },
  };
}

/** Compares texts of any length in constant time. */
function isSame(one: string, other: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(one), digest(other));
}

/** Converts a request of Node's server to a web request, and the response back. */
async function pass(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  answer: (request: Request) => Promise<Response>,
): Promise<void> {
  const { method = 'GET', url = '/' } = incoming;
  const gone = new AbortController();
  outgoing.on('close', () => gone.abort());
  const headers = Object.entries(incoming.headersDistinct).flatMap(([name, values = []]) =>
    values.map((value): [string, string] => [name, value]),
  );
  const hasBody = method !== 'GET' && method !== 'HEAD';
  const response = await answer(
    new Request(new URL(url, 'http://127.0.0.1'), {
      method,
      headers,
      signal: gone.signal,
      ...(hasBody && { body: Readable.toWeb(incoming) as ReadableStream, duplex: 'half' }),
    }),
  );
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  if (response.body === null) outgoing.end();
  else await pipeline(Readable.fromWeb(response.body as Parameters<typeof Readable.fromWeb>[0]), outgoing);
}
