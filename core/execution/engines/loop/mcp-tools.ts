import { connectionSecret } from '#core/base/connection-names.ts';
import { hasCode, PlatformError } from '#core/base/errors.ts';
import { fileTypeOf } from '#core/base/file-type.ts';
import { type Json, jsonProblem } from '#core/base/json.ts';
import { countText } from '#core/base/size-text.ts';
import { asPrintableLine } from '#core/http/printable-line.ts';
import { DESTRUCTIVE } from '#core/manifest/approval.ts';
import type { Approval, McpServer } from '#core/manifest/definition.ts';
import { filledValue, mayBeToolOf, mcpToolName } from '#core/manifest/parsing/mcp-servers.ts';
import { modelFileOf } from '#core/models/file-limits.ts';
import { toolServerUrlProblem } from '#core/outbound/tool-server-url.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { LlmTool, LlmToolCall } from '#core/ports/llm.ts';
import type { SandboxSession } from '#core/ports/sandbox.ts';
import {
  type ServerResult,
  type ServerResultPart,
  type ServerTool,
  type ToolServerAddress,
  ToolServerFailure,
  type ToolServerSession,
} from '#core/ports/tool-servers.ts';
import type { EngineRun } from '../engine.ts';
import { type LoopFiles, MAX_SHOWN_BYTES } from './loop-files.ts';
import { prepareStdioServers, StdioServer } from './stdio-servers.ts';
import { COMMAND_SECONDS, ERROR, errorOutcome, type ToolOutcome, withoutNul } from './tool-outcome.ts';

/** Timeout of one attempt to open a server. */
const OPEN_SECONDS = 10;
/** Timeout of the only attempt to open a process, which may have to load many packages first. */
const START_SECONDS = 60;
/** Delay before the second and last attempt to open a server. */
const RETRY_MS = 500;
const MAX_DESCRIPTION_CHARACTERS = 2000;
const MAX_PROBLEM_CHARACTERS = 2000;
const MAX_SCHEMA_BYTES = 16 * 1024;
/** Total size of the descriptions and schemas of all tools, which the model reads in every turn. */
const MAX_DEFINITIONS_BYTES = 128 * 1024;
/** Number of tools of a server from which on the log advises the author to choose. */
const MANY_TOOLS = 40;
/** Maximum number of tools of a server whose tools the manifest does not name. */
const MAX_UNNAMED_TOOLS = 128;
/** Pattern of tool names, the same as in the manifest. */
const TOOL_NAME = /^[\w.-]{1,128}$/;

export type McpDeps = Pick<Deps, 'toolServers' | 'ownServices' | 'exchanges' | 'config' | 'clock'>;

interface OfferedTool {
  readonly server: McpServer;
  readonly tool: ServerTool;
  readonly session: ToolServerSession;
  readonly definition: LlmTool;
}

interface OpenedServer {
  readonly tools: readonly OfferedTool[];
  /** What the author should know, as sentences. */
  readonly notes: readonly string[];
}

/**
 * The tools of a run's MCP servers (`docs/interface/mcp-servers.md`). The platform calls those with an address itself:
 * the sandbox gets neither the connection nor the secrets of its headers. Others are processes in the sandbox.
 */
export class McpTools {
  readonly #deps: McpDeps;
  readonly #run: EngineRun;
  readonly #signal: AbortSignal;
  readonly #files: LoopFiles;
  readonly #sandbox: () => Promise<SandboxSession>;
  readonly #otherNames: readonly string[];
  readonly #sessions: ToolServerSession[] = [];
  readonly #processes: StdioServer[] = [];
  #prepared: Promise<void> | undefined;
  #tools: ReadonlyMap<string, OfferedTool> = new Map();
  /** One line per server, for the run's log. */
  readonly log: string[] = [];

  constructor(
    deps: McpDeps,
    run: EngineRun,
    {
      signal,
      files,
      sandbox,
      otherNames,
    }: {
      readonly signal: AbortSignal;
      readonly files: LoopFiles;
      /** Opens the run's sandbox. */
      readonly sandbox: () => Promise<SandboxSession>;
      /** Names of the loop's other tools. */
      readonly otherNames: readonly string[];
    },
  ) {
    this.#deps = deps;
    this.#run = run;
    this.#signal = signal;
    this.#files = files;
    this.#sandbox = sandbox;
    this.#otherNames = otherNames;
  }

  get definitions(): LlmTool[] {
    return [...this.#tools.values()].map(({ definition }) => definition);
  }

  /** Whether a call that may have had its effect can be made again. */
  mayRepeat(name: string): boolean {
    const server = this.#tools.get(name)?.server;
    return server !== undefined && (server.interruption ?? (server.read_only ? 'retry' : 'unknown')) === 'retry';
  }

  /** Returns which calls of a tool wait for an approval; `undefined` if none do, or if no server has this tool. */
  approvalOf(name: string): Approval | undefined {
    const { server, tool } = this.#tools.get(name) ?? {};
    if (server?.approval !== DESTRUCTIVE) return server?.approval;
    // As in the specification of MCP, a tool that says nothing may be destructive.
    const isHarmless = tool?.isReadOnly === true || tool?.isDestructive === false;
    return isHarmless ? undefined : {};
  }

  /**
   * Opens all servers concurrently and reads their tools, which stay the same until the run ends. Throws SANDBOX_ERROR
   * if a
   * server that is not optional cannot be used, and the signal's reason once it is aborted.
   */
  async open(): Promise<void> {
    const { isStrict, agent } = this.#run;
    const servers = (agent.definition.loop?.mcp_servers ?? []).filter((server) => server.read_only || !isStrict);
    const opened = await Promise.allSettled(servers.map((server) => this.#openServer(server)));
    this.#signal.throwIfAborted();
    const offered: OfferedTool[] = [];
    let bytes = 0;
    for (const [index, server] of servers.entries()) {
      const result = opened[index]!;
      const { tools, notes } = result.status === 'fulfilled' ? result.value : { tools: [], notes: [] };
      const size = tools.reduce((sum, { definition }) => sum + Buffer.byteLength(JSON.stringify(definition)), 0);
      const failure =
        result.status === 'rejected'
          ? result.reason
          : bytes + size > MAX_DEFINITIONS_BYTES &&
            new ToolServerFailure(
              `with its tools, descriptions and schemas have more than ${MAX_DEFINITIONS_BYTES / 1024} KB`,
            );
      if (failure) {
        this.#leaveOut(server, failure);
        continue;
      }
      bytes += size;
      offered.push(...tools);
      const line = [`${tools.length} tool${tools.length === 1 ? '' : 's'}`, ...notes].join('. ');
      this.log.push(`mcp ${server.name}: ${line}\n`);
    }
    this.#tools = new Map(offered.map((tool) => [tool.definition.name, tool]));
  }

  /** Returns the result for the model, even if the server fails; `undefined` if no server has this tool. */
  async call({ name, input }: LlmToolCall): Promise<ToolOutcome | undefined> {
    const offered = this.#tools.get(name);
    if (offered === undefined) return undefined;
    if (typeof input !== 'object' || input === null || Array.isArray(input)) {
      return errorOutcome(
        `The parameters of ${name} were no JSON object, were cut off for their length, or were nested too deeply.`,
      );
    }
    const { server, tool, session } = offered;
    try {
      if (server.transport === 'a2a') await this.#run.countRemote?.(server.name);
      const seconds = server.transport === 'a2a' ? this.#secondsLeft : COMMAND_SECONDS;
      const result = await within(this.#deps.clock, seconds, this.#signal, (signal) =>
        session.call(tool, input as Record<string, Json>, signal, this.#run.traceHeaders?.()),
      );
      return this.#outcome(name, result);
    } catch (error) {
      this.#checkSandbox();
      // No call was made, as for a dependency whose caller may make no more.
      if (hasCode(error, 'BUDGET_EXCEEDED') || hasCode(error, 'MAX_HOPS_EXCEEDED')) {
        return errorOutcome((error as PlatformError).message);
      }
      if (!hasCode(error, 'TOOL_SERVER_FAILED')) throw error;
      return errorOutcome(`${titleOf(server)} failed: ${this.#problemIn(error, server)}. The call was not repeated.`);
    }
  }

  /** An agent of others may take as long as the run: its task is cancelled at the end of that. */
  get #secondsLeft(): number {
    return Math.max(1, Math.ceil((this.#run.deadline - this.#deps.clock.now()) / 1000));
  }

  async close(): Promise<void> {
    await Promise.all(this.#sessions.map((session) => session.close()));
  }

  async #openServer(server: McpServer): Promise<OpenedServer> {
    const session = server.command === undefined ? await this.#connect(server) : await this.#start(server);
    this.#sessions.push(session);
    return this.#offered(server, session);
  }

  async #connect(server: McpServer): Promise<ToolServerSession> {
    const { clock } = this.#deps;
    const place = server.service === undefined ? this.#placeOf(server.url!) : await this.#serviceOf(server);
    const headers = { ...this.#headersOf(server), ...this.#run.traceHeaders?.() };
    const attempt = () =>
      within(clock, OPEN_SECONDS, this.#signal, (signal) => this.#open(server, { ...place, headers }, signal));
    return attempt().catch(async (error: unknown) => {
      if (!hasCode(error, 'TOOL_SERVER_FAILED') || !(error as ToolServerFailure).isTransient) throw error;
      await clock.sleep(RETRY_MS, this.#signal);
      return attempt();
    });
  }

  async #open(
    { transport }: McpServer,
    address: Omit<ToolServerAddress, 'transport'>,
    signal: AbortSignal,
  ): Promise<ToolServerSession> {
    if (transport !== 'a2a') return this.#deps.toolServers.open({ ...address, transport }, signal);
    // Loaded lazily: few loops call agents of others, and smaller functions start faster.
    const { openAgent } = await import('../../remote-agents/session.ts');
    return openAgent(this.#deps, address, signal);
  }

  #placeOf(url: string): Pick<ToolServerAddress, 'url'> {
    const problem = toolServerUrlProblem(this.#deps.config, url);
    if (problem !== undefined) throw new ToolServerFailure(problem);
    return { url };
  }

  /** An agent of another workspace does not choose among the services of the one that calls it. */
  async #serviceOf({ service, path }: McpServer): Promise<Pick<ToolServerAddress, 'url' | 'exchanges'>> {
    const { workspaceId, agent } = this.#run;
    if (agent.workspaceId !== workspaceId) {
      throw new ToolServerFailure('it is a service, which only agents of the same workspace use');
    }
    const found = await this.#deps.ownServices.find(workspaceId, service!);
    if ('problem' in found) throw new ToolServerFailure(found.problem);
    return { url: `${found.url}${path}`, exchanges: found.exchanges };
  }

  async #start(server: McpServer): Promise<ToolServerSession> {
    const { clock, toolServers } = this.#deps;
    const { env, mask, deadline } = this.#run;
    const session = await this.#sandbox();
    this.#prepared ??= prepareStdioServers(session);
    await this.#prepared;
    const seconds = Math.ceil((deadline - clock.now()) / 1000) + 1;
    const process = new StdioServer({ session, server, secrets: env, mask, seconds, signal: this.#signal });
    this.#processes.push(process);
    return within(clock, START_SECONDS, this.#signal, async (signal) => {
      await process.start();
      return toolServers.open(process, signal);
    });
  }

  /** Throws if the sandbox has ended, with all servers in it. */
  #checkSandbox(): void {
    for (const { lost } of this.#processes) if (lost !== undefined) throw lost;
  }

  /** Leaves out headers whose secret the run does not have. */
  #headersOf({ headers = {}, connection }: McpServer): Record<string, string> {
    const filled: [name: string, value: string][] = [];
    const token = connection === undefined ? undefined : this.#run.env[connectionSecret(connection)];
    if (token !== undefined) filled.push(['authorization', `Bearer ${token}`]);
    for (const [name, template] of Object.entries(headers)) {
      const value = filledValue(template, this.#run.env);
      if (value === undefined) continue;
      if (!/^[\x20-\x7e]*$/.test(value)) {
        throw new ToolServerFailure(`the secret in its header ${name} has characters that are not allowed in a header`);
      }
      filled.push([name, value]);
    }
    return Object.fromEntries(filled);
  }

  #offered(server: McpServer, session: ToolServerSession): OpenedServer {
    const offer = (tool: ServerTool): OfferedTool => {
      if (server.read_only && tool.isReadOnly === false) {
        throw new ToolServerFailure(`its tool "${tool.name}" is not read-only according to the server`);
      }
      return { server, tool, session, definition: definitionOf(mcpToolName(server.name, tool.name), server, tool) };
    };
    if (server.tools === undefined) return this.#offeredAll(server, session, offer);
    const allowed = this.#allowed;
    const tools = server.tools.flatMap((wanted) => {
      if (allowed !== undefined && !allowed.includes(mcpToolName(server.name, wanted))) return [];
      const tool = session.tools.find((each) => each.name === wanted);
      if (tool === undefined) throw new ToolServerFailure(missing(wanted, session.tools));
      return [offer(tool)];
    });
    return { tools, notes: [] };
  }

  /** Offers all tools of a server but those that a model cannot call by their names. */
  #offeredAll({ name }: McpServer, { tools: all }: ToolServerSession, offer: (tool: ServerTool) => OfferedTool) {
    const taken = new Set(this.#otherNames);
    const offered: ServerTool[] = [];
    let leftOut = 0;
    for (const tool of all) {
      const shown = mcpToolName(name, tool.name);
      const isUsable = TOOL_NAME.test(tool.name) && !taken.has(shown);
      if (!isUsable) leftOut++;
      else if (this.#allowed?.includes(shown) ?? true) offered.push(tool);
      taken.add(shown);
    }
    const wanted = (this.#allowed ?? []).find((tool) => mayBeToolOf(name, tool) && !taken.has(tool));
    if (wanted !== undefined) throw new ToolServerFailure(missing(wanted, all));
    if (offered.length > MAX_UNNAMED_TOOLS) {
      throw new ToolServerFailure(
        `it has ${countText(offered.length)} tools, more than ${MAX_UNNAMED_TOOLS}: name those that the agent needs in its "tools"`,
      );
    }
    const notes: string[] = [];
    if (offered.length > MANY_TOOLS) {
      notes.push(
        `Models choose badly among more than ${MANY_TOOLS}: name those that the agent needs in "tools" of the server`,
      );
    }
    if (leftOut > 0) notes.push(`${countText(leftOut)} left out, whose names are invalid or taken`);
    return { tools: offered.map(offer), notes };
  }

  /** The tools of servers that `loop.tools` names, if it names any. */
  get #allowed(): readonly string[] | undefined {
    const named = this.#run.agent.definition.loop?.tools?.filter((name) => name.startsWith('mcp__')) ?? [];
    return named.length > 0 ? named : undefined;
  }

  #leaveOut(server: McpServer, failure: unknown): void {
    this.#checkSandbox();
    if (!hasCode(failure, 'TOOL_SERVER_FAILED')) throw failure;
    const message = `${titleOf(server)} cannot be used: ${this.#problemIn(failure, server)}.`;
    this.#run.trace.add({ event_type: 'error', error_type: 'MCP_SERVER', error_message: message });
    if (!server.optional) {
      throw new PlatformError('SANDBOX_ERROR', message, {
        category: 'setup_error',
        hint: 'No tool has run. With "optional": true in mcp_servers, runs continue without this server.',
      });
    }
    this.log.push(`mcp ${server.name}: skipped. ${message}\n`);
  }

  /**
   * Returns one line without control characters: the server may have chosen the text, and the run's log contains it.
   */
  #problemIn(failure: unknown, { connection }: McpServer): string {
    const { message, challenge } = failure as ToolServerFailure;
    const text = asPrintableLine(this.#run.mask.text(message), MAX_PROBLEM_CHARACTERS);
    if (connection === undefined || challenge === undefined) return text;
    const [, scopes] = /\bscope="([\x21\x23-\x5b\x5d-\x7e ]{1,500})"/.exec(challenge) ?? [];
    const wanted = scopes === undefined ? '' : `, which wants the scopes ${scopes}`;
    return `${text}. It refuses the connection "${connection}"${wanted}: connect again with "platform connect ${connection}"`;
  }

  #outcome(tool: string, { isError, parts }: ServerResult): ToolOutcome {
    const shown = parts.map((part) => this.#shown(tool, part));
    const text = shown.map((part) => part.text).join('\n');
    // The server may echo the secrets of its headers.
    const masked = this.#run.mask.text(withoutNul(text === '' ? '(no output)' : text.toWellFormed()));
    const files = shown.flatMap((part) => part.files ?? []);
    return { text: isError ? `${ERROR} ${masked}` : masked, isError, ...(files.length > 0 && { files }) };
  }

  /** Converts a part of a result: a text, or for a file its description and, if the model can view it, the file. */
  #shown(tool: string, part: ServerResultPart): Pick<ToolOutcome, 'text' | 'files'> {
    if (part.type === 'text') return { text: part.text };
    const { mediaType, bytes } = part;
    // The server's stated type is ignored.
    const named = { title: tool, path: tool };
    const file = bytes.byteLength > MAX_SHOWN_BYTES ? undefined : modelFileOf(bytes, fileTypeOf(bytes), named);
    if (file !== undefined) return this.#files.show(file);
    const size = countText(bytes.byteLength);
    return { text: `[a file of type ${mediaType.slice(0, 100)} with ${size} bytes, which is not shown]` };
  }
}

/** Runs `work` with a timeout in seconds, or until `signal` is aborted. */
async function within<T>(
  clock: Clock,
  seconds: number,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const over = new AbortController();
  const done = new AbortController();
  clock.sleep(seconds * 1000, done.signal).then(
    () => over.abort(new ToolServerFailure(`it did not answer within ${seconds} seconds`, { isTransient: true })),
    () => {},
  );
  try {
    return await work(AbortSignal.any([signal, over.signal]));
  } finally {
    done.abort();
  }
}

const titleOf = ({ name, transport }: McpServer): string =>
  `The ${transport === 'a2a' ? 'agent' : 'MCP server'} "${name}"`;

const MAX_NAMED = 20;

function missing(wanted: string, tools: readonly ServerTool[]): string {
  const names = tools.slice(0, MAX_NAMED).map(({ name }) => name.slice(0, 64));
  const others = tools.length > MAX_NAMED ? ` and ${tools.length - MAX_NAMED} others` : '';
  return `it has no tool "${wanted}"; it has ${names.length === 0 ? 'none' : names.join(', ')}${others}`;
}

function definitionOf(name: string, server: McpServer, { description, inputSchema }: ServerTool): LlmTool {
  const json = asJson(inputSchema);
  if (json === undefined || Buffer.byteLength(json) > MAX_SCHEMA_BYTES) {
    throw new ToolServerFailure(`the schema of its tool "${name}" has more than ${MAX_SCHEMA_BYTES / 1024} KB`);
  }
  const problem = jsonProblem(inputSchema as Json);
  if (problem !== undefined) throw new ToolServerFailure(`the schema of its tool "${name}" ${problem}`);
  // Made well-formed after the cut, which may split a surrogate pair.
  const text = withoutNul(description.slice(0, MAX_DESCRIPTION_CHARACTERS).toWellFormed());
  return {
    name,
    description:
      `${server.transport === 'a2a' ? `Asks the agent "${server.name}"` : `A tool of the MCP server "${server.name}"`}. ${text}`.trimEnd(),
    inputSchema,
  };
}

/** Returns `undefined` for a schema that is nested too deeply to serialize. */
function asJson(schema: ServerTool['inputSchema']): string | undefined {
  try {
    return JSON.stringify(schema);
  } catch {
    return undefined;
  }
}
