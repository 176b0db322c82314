import { createHash } from 'node:crypto';
import * as z from 'zod';
import { connectionSecret } from '#core/base/connection-names.ts';
import { providerOfSecret } from '#core/models/providers.ts';
import { type CustomTool, MCP_TRANSPORTS, type McpServer } from '../definition.ts';
import { type Found, fieldName, quote } from '../field-error.ts';
import { approvalOf, serverApprovalShape } from './approvals.ts';
import { interruptionShape } from './orchestration.ts';

const MAX_SERVERS = 8;
const MAX_TOOLS = 32;
/** Maximum number of tools that the servers of a manifest name together. */
const MAX_ALL_TOOLS = 64;
const MAX_HEADERS = 10;
const MAX_ARGS = 50;
const MAX_VARIABLES = 50;
/** Path of a service's endpoint by the convention of the protocol's SDKs. */
const SERVICE_PATH = '/mcp';
/** Maximum length of a tool name that all providers accept. */
const MAX_TOOL_NAME = 64;

const nameRule = 'must be 1-24 lower-case letters, digits and single hyphens, with no hyphen at either end';
const toolRule = 'must be the name of a tool on the server: 1-128 letters, digits, "_", "-" or "."';
const headersRule = 'must be an object of header name -> value';
const connectionRule =
  'must be the name of a connection: at most 40 lower-case letters, digits and single hyphens, beginning with a letter';
const CONNECTION_NAME = /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/;
const envRule = 'must be an object of variable name -> value';
const commandRule = 'must be a program, of 1 to 1,000 characters: a name on the PATH, or a path';
const serviceRule = 'must be the name or the id of a service of the workspace';
const pathRule = 'must be a path that begins with "/", without spaces, "#" and ".."';
const argsRule = 'must be an array of texts without NUL, each of at most 4,000 characters';

/** Shape of the member; {@link checkMcpServers} checks the rules. */
export const mcpServersShape = z
  .array(
    z.looseObject(
      {
        name: z
          .string(nameRule)
          .max(24, nameRule)
          .regex(/^[a-z0-9]+(-[a-z0-9]+)*$/, nameRule),
        url: z.string('must be an https address').max(2048, 'must be at most 2,048 characters').nullish(),
        service: z
          .string(serviceRule)
          .regex(/^[\w .-]{1,63}$/, serviceRule)
          .nullish(),
        path: z
          .string(pathRule)
          .max(1000, 'must be at most 1,000 characters')
          .regex(/^\/(?!.*\.\.)[\x21\x22\x24-\x7e]*$/, pathRule)
          .nullish(),
        transport: z.enum(MCP_TRANSPORTS, `must be one of ${MCP_TRANSPORTS.join(', ')}`).nullish(),
        headers: z.record(z.string(), z.unknown(), headersRule).nullish(),
        connection: z.string(connectionRule).max(40, connectionRule).regex(CONNECTION_NAME, connectionRule).nullish(),
        command: z
          .string(commandRule)
          .regex(/^[^\0\s][^\0\n]{0,999}$/, commandRule)
          .nullish(),
        args: z
          .array(z.string(argsRule).regex(/^[^\0]{0,4000}$/, argsRule), argsRule)
          .max(MAX_ARGS, `must be at most ${MAX_ARGS}`)
          .nullish(),
        env: z.record(z.string(), z.unknown(), envRule).nullish(),
        tools: z
          .array(
            z.string(toolRule).regex(/^[\w.-]{1,128}$/, toolRule),
            'must be an array of names of tools on the server',
          )
          .min(1, 'must name at least one tool: without this member all tools of the server are offered')
          .max(MAX_TOOLS, `must be at most ${MAX_TOOLS}`)
          .nullish(),
        read_only: z.boolean('must be true or false').nullish(),
        optional: z.boolean('must be true or false').nullish(),
        interruption: interruptionShape.nullish(),
        approval: serverApprovalShape.nullish(),
      },
      'must be an object with name and one of url, service and command',
    ),
    'must be an array of servers',
  )
  .max(MAX_SERVERS, `must be at most ${MAX_SERVERS}`);

interface Beside {
  readonly given: {
    readonly required_secrets?: readonly string[];
    readonly optional_secrets?: readonly string[];
    readonly loop?: { readonly tools?: readonly string[] | null };
  };
  readonly customTools: readonly CustomTool[];
}

/**
 * Checks the rules of MCP servers beyond their shape (`docs/interface/mcp-servers.md`). The allowed addresses depend on
 * the host and are checked by `validate-references.ts`.
 */
export function checkMcpServers(
  servers: z.output<typeof mcpServersShape>,
  { given, customTools }: Beside,
  found: Found,
): McpServer[] {
  const { errors } = found;
  const secrets = [...(given.required_secrets ?? []), ...(given.optional_secrets ?? [])];
  const names = new Set<string>();
  const tools = new Set(customTools.map(({ name }) => name));
  const ofServers = servers.flatMap(({ name, tools }) => (tools ?? []).map((tool) => mcpToolName(name, tool)));
  for (const [index, name] of (given.loop?.tools ?? []).entries()) {
    if (!name.startsWith('mcp__') || ofServers.includes(name)) continue;
    if (servers.some((server) => server.tools == null && mayBeToolOf(server.name, name))) continue;
    errors.push({
      field: fieldName(['loop', 'tools', index]),
      message: `is ${quote(name)}, which is not a tool of mcp_servers`,
    });
  }
  if (servers.length > MAX_SERVERS) {
    const message = `must be at most ${MAX_SERVERS}, with the agents of others among the dependencies`;
    errors.push({ field: 'mcp_servers', message });
  }
  if (ofServers.length > MAX_ALL_TOOLS) {
    const message = `must have at most ${MAX_ALL_TOOLS} tools together, but have ${ofServers.length}`;
    errors.push({ field: 'mcp_servers', message });
  }
  return servers.map((server, index) => {
    const { name, tools: named, read_only, optional, interruption, approval } = server;
    const at = ['mcp_servers', index];
    if (names.has(name)) errors.push({ field: fieldName([...at, 'name']), message: `is "${name}" a second time` });
    names.add(name);
    for (const [position, tool] of (named ?? []).entries()) {
      const offered = mcpToolName(name, tool);
      if (tools.has(offered)) {
        const message = `is ${quote(tool)}, which the model would get as "${offered}", the name of another tool`;
        errors.push({ field: fieldName([...at, 'tools', position]), message });
      }
      tools.add(offered);
    }
    return {
      name,
      ...checkPlace(server, { at, secrets }, found),
      ...(named && { tools: named }),
      read_only: read_only ?? false,
      optional: optional ?? false,
      ...(interruption && { interruption }),
      ...approvalOf(approval, `mcp_servers[${index}].approval`, found),
    };
  });
}

type RawServer = z.output<typeof mcpServersShape>[number];
type Place = Pick<
  McpServer,
  'url' | 'service' | 'path' | 'transport' | 'headers' | 'connection' | 'command' | 'args' | 'env'
>;

/** The members that say where a server is. Each of them needs the member for which it is listed. */
const NEEDS = {
  url: ['transport', 'headers', 'connection'],
  service: ['path', 'transport', 'headers'],
  command: ['args', 'env'],
} as const;
const PLACES = ['url', 'service', 'command'] as const;

function checkPlace(
  server: RawServer,
  { at, secrets }: { readonly at: readonly PropertyKey[]; readonly secrets: readonly string[] },
  found: Found,
): Place {
  const { errors } = found;
  const given = PLACES.filter((place) => server[place] != null);
  const place = given[0];
  if (place === undefined || given.length > 1) {
    const has = place === undefined ? 'none' : given.map((name) => `"${name}"`).join(' and ');
    const message = `must have exactly one of "url", "service" and "command", but has ${has}`;
    errors.push({ field: fieldName(at), message });
    return {};
  }
  const allowed: readonly string[] = NEEDS[place];
  for (const name of ['path', 'transport', 'headers', 'connection', 'args', 'env'] as const) {
    if (server[name] == null || allowed.includes(name)) continue;
    const others = PLACES.filter((other) => (NEEDS[other] as readonly string[]).includes(name));
    const message = `must not be set beside "${place}": it belongs to ${others.map((other) => `"${other}"`).join(' or ')}`;
    errors.push({ field: fieldName([...at, name]), message });
  }
  const { url, service, path, transport, headers, connection, command, args, env } = server;
  if (connection != null && Object.keys(headers ?? {}).some((name) => name.toLowerCase() === 'authorization')) {
    const message = 'must not have "Authorization" beside "connection", which sets it';
    errors.push({ field: fieldName([...at, 'headers']), message });
  }
  if (command != null) {
    return { command, args: args ?? [], env: checkEnv(env ?? {}, { at: [...at, 'env'], secrets }, found) };
  }
  return {
    ...(url != null ? { url } : { service: service!, path: path ?? SERVICE_PATH }),
    ...(transport != null && { transport }),
    ...(connection != null && { connection }),
    headers: checkHeaders(headers ?? {}, { at: [...at, 'headers'], secrets }, found),
  };
}

/** Whether a server whose tools are not named may have a tool of this name. */
export const mayBeToolOf = (server: string, name: string): boolean => name.startsWith(`mcp__${server}__`);

/** Returns the name of a server's tool for the model. Names that providers refuse are changed deterministically. */
export function mcpToolName(server: string, tool: string): string {
  const name = `mcp__${server}__${tool.replaceAll('.', '_')}`;
  if (name.length <= MAX_TOOL_NAME) return name;
  const mark = createHash('sha256').update(tool).digest('hex').slice(0, 6);
  return `${name.slice(0, MAX_TOOL_NAME - mark.length - 1)}_${mark}`;
}

/** `${NAME}` in the value of a header or variable. */
const REFERENCE = /\$\{([^}]*)\}/g;

/** Fills the secrets into the value of a header or variable; `undefined` if one of them is missing. */
export function filledValue(value: string, secrets: Readonly<Record<string, string | undefined>>): string | undefined {
  if (secretsIn(value).some((name) => secrets[name] === undefined)) return undefined;
  return value.replaceAll(REFERENCE, (_, name: string) => secrets[name]!.trim());
}

/** Returns the names of the secrets in a value. */
const secretsIn = (value: string): string[] => [...value.matchAll(REFERENCE)].map((match) => match[1]!);

/** Returns the names of all secrets in the headers of these servers, those of connections included. */
export const headerSecrets = (servers: readonly Pick<McpServer, 'headers' | 'connection'>[]): string[] =>
  servers.flatMap(({ headers = {}, connection }) => [
    ...Object.values(headers).flatMap(secretsIn),
    ...(connection === undefined ? [] : [connectionSecret(connection)]),
  ]);

/** Returns the secrets of the connections that these servers name: of those that a run needs, or of optional ones. */
export const connectionSecrets = (
  servers: readonly Pick<McpServer, 'connection' | 'optional'>[],
  isOptional: boolean,
): string[] =>
  servers.flatMap(({ connection, optional }) =>
    connection === undefined || optional !== isOptional ? [] : [connectionSecret(connection)],
  );

/** Headers of the connection and the protocol, which only the platform sets. */
const OWN_HEADERS =
  /^(accept|accept-encoding|connection|content-.*|date|expect|forwarded|host|keep-alive|last-event-id|mcp-.*|proxy-.*|te|trailer|transfer-encoding|upgrade|via|x-forwarded-.*)$/i;
const SENSITIVE = /auth|key|token|secret|password|credential|cookie/i;

/** Checks headers. Messages never repeat a value, because an author may have written a secret there. */
function checkHeaders(
  headers: Readonly<Record<string, unknown>>,
  { at, secrets }: { readonly at: readonly PropertyKey[]; readonly secrets: readonly string[] },
  { errors }: Found,
): Record<string, string> {
  const entries = Object.entries(headers);
  if (entries.length > MAX_HEADERS) errors.push({ field: fieldName(at), message: `must be at most ${MAX_HEADERS}` });
  const seen = new Set<string>();
  for (const [name, value] of entries.slice(0, MAX_HEADERS)) {
    const problem = headerNameProblem(name, seen) ?? headerValueProblem(name, value, secrets);
    if (problem !== undefined) errors.push({ field: fieldName([...at, name]), message: problem });
    seen.add(name.toLowerCase());
  }
  return headers as Record<string, string>;
}

function headerNameProblem(name: string, seen: ReadonlySet<string>): string | undefined {
  if (!/^[\w!#$%&'*+.^`|~-]{1,64}$/.test(name)) return 'must have the name of an HTTP header, at most 64 characters';
  if (OWN_HEADERS.test(name)) return 'must not be set: the platform sets this header itself';
  return seen.has(name.toLowerCase()) ? 'is a duplicate: header names are case-insensitive' : undefined;
}

function headerValueProblem(name: string, value: unknown, secrets: readonly string[]): string | undefined {
  if (typeof value !== 'string') return 'must be a string';
  if (!/^[\x20-\x7e]{1,1000}$/.test(value)) return 'must be 1-1,000 characters of ASCII, without line ends';
  return secretProblem(name, value, secrets);
}

/** Checks the variables of a server's process. As for headers, messages repeat no value. */
function checkEnv(
  env: Readonly<Record<string, unknown>>,
  { at, secrets }: { readonly at: readonly PropertyKey[]; readonly secrets: readonly string[] },
  { errors }: Found,
): Record<string, string> {
  const entries = Object.entries(env);
  if (entries.length > MAX_VARIABLES) {
    errors.push({ field: fieldName(at), message: `must be at most ${MAX_VARIABLES}` });
  }
  for (const [name, value] of entries.slice(0, MAX_VARIABLES)) {
    const problem = variableNameProblem(name) ?? variableValueProblem(name, value, secrets);
    if (problem !== undefined) errors.push({ field: fieldName([...at, name]), message: problem });
  }
  return env as Record<string, string>;
}

/** Variables by which programs find the sandbox's runtimes and its way out. */
const OWN_VARIABLES = /^(home|path|pwd|user|tmpdir|shell|https?_proxy|all_proxy|no_proxy|platform_.*)$/i;

function variableNameProblem(name: string): string | undefined {
  if (!/^[A-Za-z_]\w{0,63}$/.test(name)) return 'must have the name of a variable: at most 64 letters, digits and "_"';
  return OWN_VARIABLES.test(name) ? 'must not be set: the platform sets this variable itself' : undefined;
}

function variableValueProblem(name: string, value: unknown, secrets: readonly string[]): string | undefined {
  if (typeof value !== 'string') return 'must be a string';
  if (value.length > 4000 || value.includes('\0')) return 'must be at most 4,000 characters, without NUL';
  return secretProblem(name, value, secrets);
}

function secretProblem(name: string, value: string, secrets: readonly string[]): string | undefined {
  const named = secretsIn(value);
  if (named.length === 0 && SENSITIVE.test(name)) {
    return `must take its value from a secret, as in "Bearer \${NAME}": everyone who may read the manifest can read it`;
  }
  for (const secret of named) {
    if (providerOfSecret(secret) !== undefined) {
      return `must not use ${secret}: keys of model providers stay with the platform`;
    }
    if (!secrets.includes(secret)) {
      return `must only use secrets of required_secrets or optional_secrets, but uses ${quote(secret)}`;
    }
  }
  return undefined;
}
