import type { Command } from '@commander-js/extra-typings';
import { readProfiles } from '#client/profiles.ts';
import { UsageError } from '#client/usage-error.ts';
import type { Client } from '#core/api/client.ts';
import type { Route } from '#core/http/route.ts';
import { type Connection, clientOf, findConnection, type Wire } from '../signing-in/connection.ts';
import { Output, printable, type Terminal } from './output.ts';

/** Environment of the CLI, which tests can replace. */
export interface Host {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: AsyncIterable<Buffer | string> & { readonly isTTY?: boolean };
  readonly stdout: Terminal;
  readonly stderr: Terminal;
  readonly fetch: typeof fetch;
  /** Folder that contains the profiles. */
  readonly configFolder: string;
  readonly cwd: string;
  /** Operating system, as in `process.platform`. */
  readonly platform: NodeJS.Platform;
  /** Calls `listener` for each Ctrl-C until the returned function is called. */
  onInterrupt(listener: () => void): () => void;
  exit(status: number): void;
  /** Lets other processes have the processors first from now on. */
  yieldProcessors(): void;
  /** Opens a URL in the user's browser, if there is one. */
  openUrl(url: string): void;
}

/** Global flags. */
export interface GlobalOptions {
  readonly json?: boolean;
  readonly profile?: string;
  readonly url?: string;
  readonly workspace?: string;
  readonly quiet?: boolean;
  readonly verbose?: boolean;
  /** Seconds. */
  readonly timeout?: number;
  readonly color?: boolean;
  readonly yes?: boolean;
}

/** Adds arguments, options and the action, or subcommands, to a command. */
export type Configure = (command: Command, cli: Cli) => void;

/** Shared state of commands: the output, and the connection to a platform. */
export class Cli {
  readonly host: Host;
  #options: GlobalOptions = {};
  #output: Output;
  #connection: Promise<Connection> | undefined;
  #last: Pick<Connection, 'url' | 'mismatch'> | undefined;
  #client: Promise<Client> | undefined;

  constructor(host: Host) {
    this.host = host;
    // Set before the flags are parsed, so that parse errors have the same format.
    this.#output = this.#outputFor({ json: host.argv.includes('--json') });
  }

  /** Called once, after the flags are parsed. */
  use(options: GlobalOptions): void {
    this.#options = options;
    this.#output = this.#outputFor(options);
  }

  get options(): GlobalOptions {
    return this.#options;
  }

  get output(): Output {
    return this.#output;
  }

  /** Whether prompts are possible. With `--json` they are not, even on a terminal. */
  get isInteractive(): boolean {
    const { stdin, stderr, env } = this.host;
    return Boolean(stdin.isTTY && stderr.isTTY) && env.CI === undefined && !this.#options.json;
  }

  async connection(): Promise<Connection> {
    this.#connection ??= findConnection({ ...this.host, ...this.#options });
    const connection = await this.#connection;
    this.#last = connection;
    return connection;
  }

  /** Returns the URL to sign in to. The profile may be a new one. */
  async signInUrl(): Promise<string> {
    const { profiles } = await readProfiles(this.host.configFolder);
    const { profile = '' } = this.#options;
    const known = Object.hasOwn(profiles, profile) ? profile : undefined;
    const { url } = await findConnection({ ...this.host, ...this.#options, profile: known });
    this.#last = { url };
    return url;
  }

  /** The last contacted platform, for error messages. */
  get last(): Pick<Connection, 'url' | 'mismatch'> | undefined {
    return this.#last;
  }

  /** Returns a client that acts as the user of the connection. Throws UsageError without a key. */
  client(): Promise<Client> {
    this.#client ??= this.#connect();
    return this.#client;
  }

  /**
   * Returns a client with the key that the row requires. The operator key is read from `PLATFORM_OPERATOR_KEY` or
   * prompted for.
   */
  async clientFor({ auth }: Pick<Route, 'auth'>): Promise<Client> {
    if (auth === 'key') return this.client();
    if (auth !== 'operator') return this.anyone();
    const key = this.host.env.PLATFORM_OPERATOR_KEY ?? (await this.askSecret('Operator key'));
    return clientOf({ ...(await this.connection()), key }, undefined, this.wire);
  }

  /** Returns a client without a workspace; it may have no key. */
  async anyone(): Promise<Client> {
    return clientOf(await this.connection(), undefined, this.wire);
  }

  /** Returns a copy for another workspace, by ID or slug; with `undefined`, returns this object. */
  inWorkspace(workspace: string | undefined): Cli {
    if (workspace === undefined) return this;
    const other = new Cli(this.host);
    other.use({ ...this.#options, workspace });
    return other;
  }

  /** Returns a copy that uses this connection instead of the settings. */
  withConnection(connection: Connection): Cli {
    const other = new Cli(this.host);
    other.use(this.#options);
    other.#connection = Promise.resolve(connection);
    return other;
  }

  /** Returns the ID of the current workspace. */
  async workspaceId(): Promise<string> {
    return (await this.org()).id;
  }

  async org(): Promise<{ readonly id: string; readonly slug: string; readonly name: string }> {
    return (await this.client()).getOrg({});
  }

  /** Asks for confirmation. Throws UsageError unless the user confirms, and without a terminal. */
  async confirm(what: string): Promise<void> {
    if (this.#options.yes) return;
    if (!this.isInteractive)
      throw new UsageError(`Cannot ask for confirmation without a terminal: ${what}? Pass --yes to confirm.`);
    const { confirm } = await import('@clack/prompts');
    const answer = await confirm({ message: `${printable(what)}?`, initialValue: false, output: process.stderr });
    if (answer !== true) throw new UsageError('Cancelled. Nothing was changed.', { exitCode: 1 });
  }

  /** Prompts for a secret without echo. Throws UsageError without a terminal. */
  async askSecret(message: string): Promise<string> {
    if (!this.isInteractive) throw new UsageError(`Cannot prompt without a terminal: pass it on stdin (${message}).`);
    const { isCancel, password } = await import('@clack/prompts');
    const answer = await password({ message, output: process.stderr });
    if (isCancel(answer)) throw new UsageError('Cancelled. Nothing was changed.', { exitCode: 130 });
    return answer;
  }

  /** Prompts for a text. Throws UsageError with `otherwise` without a terminal. */
  async ask(message: string, otherwise: string): Promise<string> {
    if (!this.isInteractive) throw new UsageError(otherwise);
    const { isCancel, text } = await import('@clack/prompts');
    const answer = await text({ message, output: process.stderr });
    if (isCancel(answer)) throw new UsageError('Cancelled. Nothing was changed.', { exitCode: 130 });
    return answer;
  }

  /** Prompts for one of several options. Throws UsageError that names the flag without a terminal. */
  async choose<T extends string>(
    message: string,
    options: readonly { readonly value: T; readonly hint: string }[],
    flag: string,
  ): Promise<T> {
    if (!this.isInteractive) throw new UsageError(`Specify ${flag}: ${options.map(({ value }) => value).join(', ')}.`);
    const { isCancel, select } = await import('@clack/prompts');
    const labelled = options.map(({ value, hint }) => ({
      value: value as string,
      label: value,
      hint: printable(hint),
    }));
    const answer = await select<string>({ message, options: labelled, output: process.stderr });
    if (isCancel(answer)) throw new UsageError('Cancelled. Nothing was changed.', { exitCode: 130 });
    return answer as T;
  }

  /** Returns what requests without a client need. Throws UsageError without a key, and for an unknown workspace. */
  async access(): Promise<{ readonly url: string; readonly key: string; readonly workspaceId: string | undefined }> {
    const connection = await this.connection();
    if (connection.key === undefined) {
      throw new UsageError(`Not signed in to ${connection.url}.`, {
        hint: connection.mismatch ?? 'Run `platform login`, or set PLATFORM_API_KEY.',
        exitCode: 2,
      });
    }
    const { url, key, workspace } = connection;
    if (workspace === undefined || isUuid(workspace)) return { url, key, workspaceId: workspace };
    const { workspaces } = await (await this.anyone()).listWorkspaces({});
    const found = workspaces.find(({ slug }) => slug === workspace);
    if (!found) {
      const known = workspaces.map(({ slug }) => slug).join(', ');
      throw new UsageError(`You are not a member of a workspace "${workspace}". Your workspaces: ${known}.`);
    }
    return { url, key, workspaceId: found.id };
  }

  async #connect(): Promise<Client> {
    const { workspaceId } = await this.access();
    return clientOf(await this.connection(), workspaceId, this.wire);
  }

  /** Settings for requests to any platform. */
  get wire(): Wire {
    const { verbose, timeout } = this.#options;
    return {
      fetch: this.host.fetch,
      ...(timeout !== undefined && { timeoutMs: timeout * 1000 }),
      ...(verbose && { trace: (line: string) => this.output.error(this.output.style('dim', line)) }),
    };
  }

  #outputFor({ json = false, quiet = false, color }: GlobalOptions): Output {
    const { stdout, stderr, env } = this.host;
    const wantsColor = env.FORCE_COLOR !== undefined || (stdout.isTTY === true && env.NO_COLOR === undefined);
    const isLive = stderr.isTTY === true && env.CI === undefined;
    return new Output({ stdout, stderr, json, quiet, color: color !== false && wantsColor, isLive });
  }
}

const isUuid = (text: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text);
