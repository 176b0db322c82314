/**
 * The client that MCP's conformance suite drives: `conformance client --command "node test/wires/conformance-client.ts"`
 * starts it with the address of a server, and names the scenario in the environment. It uses the port `toolServers` as
 * loops do, and connections as users do, in a process of its own with tables in memory; the scenarios' servers approve at
 * once. A program and no test: it ends with 1 if it gets no further.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createMcpToolServers } from '#adapters/mcp/tool-servers.ts';
import { createToolSignIn } from '#adapters/mcp/tool-sign-in.ts';
import { beginConnection, type ConnectDeps, finishConnection } from '#core/accounts/connections/sign-in.ts';
import { findConnection, OF_WORKSPACE } from '#core/accounts/connections/store.ts';
import { freshToken } from '#core/accounts/connections/tokens.ts';
import { parseConfig } from '#core/base/config.ts';
import { hasCode } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { HttpOutbound } from '#core/outbound/http-outbound.ts';
import { SystemClock } from '#core/ports/clock.ts';
import { SystemIds } from '#core/ports/ids.ts';
import type { ServerTool, ToolServerFailure, ToolServerSession } from '#core/ports/tool-servers.ts';
import { FileVault } from '#local/files/file-vault.ts';

import { memoryTables } from '../helpers/memory-tables.ts';

const url = process.argv.at(-1)!;
const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? '';
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}') as {
  readonly client_id?: string;
  readonly client_secret?: string;
  readonly toolCalls?: readonly { readonly name: string; readonly arguments: Record<string, Json> }[];
};
/** Number of sign-ins after which the client gives up, as a person would. */
const MAX_SIGN_INS = 3;

const CLIENT_DOCUMENT = 'https://conformance-test.local/client-metadata.json';

const folder = mkdtempSync(join(tmpdir(), 'conformance-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const clock = new SystemClock();
const outbound = new HttpOutbound({ clock, ownHosts: ['localhost', '127.0.0.1'] });
const nothing = () => {};
const log = { debug: nothing, info: nothing, warn: nothing, error: nothing };
const signIns = createToolSignIn({ outbound });
const deps: ConnectDeps = {
  ...memoryTables(clock),
  config: {
    ...parseConfig({}),
    baseUrl: 'https://conformance-test.local',
    outboundHosts: ['localhost', '127.0.0.1'],
  },
  vault: new FileVault(join(folder, 'vault'), join(folder, 'vault.key')),
  clock,
  ids: new SystemIds(),
  log,
  // The suite expects the address of its own document.
  toolSignIn: { ...signIns, begin: (wish) => signIns.begin({ ...wish, clientMetadataUrl: CLIENT_DOCUMENT }) },
};
const toolServers = createMcpToolServers({ outbound, clock });
const place = { workspaceId: 'w', name: 'server', owner: OF_WORKSPACE };
const user = { workspaceId: 'w', userId: 'u', name: 'server' };

/** Signs in as a user does whose browser is sent back at once. */
async function signIn(failure: ToolServerFailure): Promise<void> {
  const { client_id: id, client_secret: secret } = context;
  const present = await findConnection(deps, place);
  const wanted = /scope="([^"]+)"/.exec(failure.challenge ?? '')?.[1]?.split(' ');
  // The user connects again with the scopes that the error names, in addition to those that the connection has.
  const scopes = wanted && present ? [...new Set([...present.scopes, ...wanted])] : undefined;
  const { authorizationUrl } = await beginConnection(deps, {
    ...{ ...place, ...user, url, scopes, challenge: failure.challenge },
    ...(id !== undefined && { client: { id, secret } }),
  });
  const answer = await fetch(authorizationUrl, { redirect: 'manual' });
  const location = answer.headers.get('location');
  if (location === null) throw new Error(`the authorization endpoint answered ${answer.status}`);
  await finishConnection(deps, user, new URL(location).search.slice(1));
}

/** Does `work` in a session; if the server asks for a sign-in, in a new one after it. */
async function inSession<T>(work: (session: ToolServerSession) => Promise<T>): Promise<T> {
  for (let signIns = 0; ; signIns++) {
    try {
      const connection = await findConnection(deps, place);
      const token = connection && (await freshToken(deps, connection));
      if (token !== undefined && typeof token !== 'string') throw new Error(token.problem);
      const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
      const session = await toolServers.open({ url, headers }, AbortSignal.timeout(20_000));
      try {
        return await work(session);
      } finally {
        await session.close();
      }
    } catch (error) {
      const wantsSignIn = hasCode(error, 'TOOL_SERVER_FAILED') && (error as ToolServerFailure).challenge !== undefined;
      if (!wantsSignIn || signIns === MAX_SIGN_INS) throw error;
      await signIn(error as ToolServerFailure);
    }
  }
}

/** Returns values for what the tool requires. */
function valuesFor({ inputSchema }: ServerTool): Record<string, Json> {
  const properties = Object(inputSchema.properties) as Record<string, { readonly type?: string }>;
  const examples: Record<string, Json> = { number: 5, integer: 5, boolean: true, array: [], object: {} };
  return Object.fromEntries(
    Object.entries(properties).map(([name, { type }]) => [name, examples[type ?? ''] ?? 'text']),
  );
}

await inSession(async (session) => {
  const { toolCalls } = context;
  const calls = toolCalls
    ? toolCalls.flatMap(({ name, arguments: input }) => {
        const tool = session.tools.find((each) => each.name === name);
        return tool ? [{ tool, input }] : [];
      })
    : session.tools.map((tool) => ({ tool, input: valuesFor(tool) }));
  for (const { tool, input } of calls) {
    await session.call(tool, input, AbortSignal.timeout(20_000)).catch((error: unknown) => {
      // Sign-ins are for the session; other failures are for the model of a loop.
      if (!hasCode(error, 'TOOL_SERVER_FAILED') || (error as ToolServerFailure).challenge !== undefined) throw error;
      console.error(`${scenario}: ${(error as Error).message}`);
    });
  }
});
