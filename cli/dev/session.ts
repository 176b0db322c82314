import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { ApiError } from '#core/api/client.ts';
import { hasCode } from '#core/base/errors.ts';
import { programProblems } from '../publishing/program-problems.ts';
import { publishFolder } from '../publishing/publish-folder.ts';
import { readFolder } from '../publishing/read-folder.ts';
import { undeclaredVariables } from '../publishing/undeclared.ts';
import type { Cli } from '../shared/cli.ts';
import { failureOf } from '../shared/failure.ts';
import { type FollowedEvent, followWorkspace } from '../shared/follow.ts';
import { duration, printable, textOf } from '../shared/output.ts';
import { isResponse } from '../signing-in/connection.ts';

/** Retry interval while the platform is unreachable. */
const RETRY_MS = 5_000;
const SHOWN_PATHS = 3;

interface Folder {
  readonly path: string;
  /** Name of its agent; unknown until the manifest can be read. */
  name?: string;
  org?: string;
  /** Whether it was published since the command started. */
  isPublished: boolean;
  /** Variables with a previous warning. */
  warned: readonly string[];
  /** Paths changed since the last publish began; `undefined` if none. */
  pending?: Set<string>;
  publishing?: Promise<void>;
}

/** A session of `platform dev`: its folders and their runs. */
export class DevSession {
  readonly #cli: Cli;
  readonly #folders: readonly Folder[];
  #input: unknown;
  #last: Folder;
  #lastRun: string | undefined;

  constructor(cli: Cli, folders: readonly string[]) {
    this.#cli = cli;
    this.#folders = folders.map((path) => ({
      path: resolve(cli.host.cwd, path),
      isPublished: false,
      warned: [],
    }));
    this.#last = this.#folders[0]!;
  }

  get folders(): readonly { readonly path: string }[] {
    return this.#folders;
  }

  /** Path of the folder that was published last. */
  get lastFolder(): string {
    return this.#last.path;
  }

  /** ID of the run that was shown last. */
  get lastRun(): string | undefined {
    return this.#lastRun;
  }

  /**
   * Publishes a folder to `dev`. Changes during a publish are collected and published together afterwards. Never
   * throws: errors are shown, and the previous version stays active.
   */
  changed(path: string, paths: readonly string[]): Promise<void> {
    const folder = this.#folders.find((each) => each.path === path)!;
    folder.pending = new Set([...(folder.pending ?? []), ...paths]);
    folder.publishing ??= this.#publishPending(folder).finally(() => {
      folder.publishing = undefined;
    });
    return folder.publishing;
  }

  async #publishPending(folder: Folder): Promise<void> {
    while (folder.pending !== undefined) {
      const paths = [...folder.pending];
      folder.pending = undefined;
      try {
        await this.#publish(folder, paths);
      } catch (error) {
        const { message, hint } = await failureOf(error, this.#cli.last);
        const kept = folder.isPublished ? 'the previous version stays active: ' : '';
        this.#say('red', `${folder.name ?? folder.path}  ${kept}${printable(message)}${hint ? `\n  ${hint}` : ''}`, {
          event: 'refused',
          agent: folder.name ?? null,
          error: message,
        });
      }
    }
  }

  async #publish(folder: Folder, paths: readonly string[]): Promise<void> {
    const { output } = this.#cli;
    const began = performance.now();
    const read = await readFolder(this.#cli, folder.path);
    folder.name = read.body.name;
    const published = await publishFolder(await this.#cli.client(), read, {
      dev: true,
      onInstall: (text) => output.note(output.style('dim', printable(text).trimEnd() || 'installing dependencies')),
    });
    const { agent, unchanged, installed, failure, warnings } = published;
    folder.org = agent.org_slug;
    this.#last = folder;
    if (failure !== null) throw new Error(`the dependencies could not be installed: ${failure}`);
    if (unchanged && folder.isPublished) return;
    folder.isPublished = true;
    const from = paths.length === 0 ? '' : ` <- ${listOf(paths)}`;
    const dependencies = installed ? ', deps installed' : agent.environment_status === null ? '' : ', deps cached';
    const took = duration(performance.now() - began);
    const what = unchanged ? 'unchanged' : `${took}${dependencies}`;
    this.#say('green', `${agent.type} ${agent.name} dev${from}  ${what}`, {
      event: 'published',
      agent: agent.name,
      changed: paths,
      unchanged,
      installed,
    });
    for (const warning of warnings) output.warn(warning);
    for (const problem of await programProblems({ folder: folder.path, body: read.body, files: read.files })) {
      output.warn(problem);
    }
    const undeclared = undeclaredVariables(read.body, read.files);
    const names = [...undeclared.keys()];
    for (const name of names.filter((each) => !folder.warned.includes(each))) {
      output.warn(`${undeclared.get(name)} reads ${name}, which is not set in runs: declare it in agent.json.`);
    }
    folder.warned = names;
  }

  /**
   * Shows the runs of these agents until `signal` aborts. Never throws: folders are published even if runs cannot be
   * followed.
   */
  async follow(signal: AbortSignal): Promise<void> {
    const { output } = this.#cli;
    while (!signal.aborted) {
      try {
        for await (const event of followWorkspace(this.#cli, 'run', signal)) this.#showRun(event);
      } catch (error) {
        const { message, hint = '' } = await failureOf(error, this.#cli.last);
        output.note(output.style('dim', `Cannot follow runs: ${message} ${hint}`.trimEnd()));
        const isRefused = (error as Error).name === 'ApiError' && (error as ApiError).status < 500;
        if (isRefused) return;
        await sleep(RETRY_MS, undefined, { signal }).catch(() => {});
      }
    }
  }

  /** `docs/interface/events.md` describes `data`. */
  #showRun({ type, data }: FollowedEvent): void {
    const { run_id, agent_name, agent_version } = data as Readonly<Record<string, string>>;
    const isOurs = agent_version === 'dev' && this.#folders.some(({ name }) => name === agent_name);
    if (!isOurs) return;
    this.#lastRun = run_id;
    const status = type === 'run.started' ? 'running' : textOf(data.status);
    const duration_ms = (data.duration_ms ?? null) as number | null;
    const color = status === 'completed' ? 'green' : status === 'failed' || status === 'timeout' ? 'red' : 'cyan';
    const took = duration_ms === null ? '' : `  ${duration(duration_ms)}`;
    const why = data.error_message ? `  ${textOf(data.error_message)}` : '';
    this.#say(color, `run ${run_id!.slice(0, 8)} ${agent_name} ${status}${took}${why}`, {
      event: 'run',
      run_id,
      agent: agent_name,
      status,
      duration_ms,
    });
  }

  /** Returns the input of the next run: the last input, else `sample-input.json` of the folder, else `{}`. */
  async input(): Promise<unknown> {
    if (this.#input !== undefined) return this.#input;
    const text = await readFile(join(this.#last.path, 'sample-input.json'), 'utf8').catch((error) => {
      if (hasCode(error, 'ENOENT')) return '{}';
      throw error;
    });
    return JSON.parse(text);
  }

  /** Runs the agent that was published last, and shows its answer. Never throws. */
  async run(input?: unknown): Promise<void> {
    const { output } = this.#cli;
    try {
      const { org, name } = this.#last;
      if (org === undefined || name === undefined) throw new Error('No agent is published yet.');
      const body = input ?? (await this.input());
      if (!isDeepStrictEqual(body, this.#input)) this.#input = body;
      const client = await this.#cli.client();
      const answer = await client.callAgent({ params: { org, agent: name, version: 'dev', endpoint: 'run' }, body });
      const data = isResponse(answer) ? await answer.text() : (answer as { data?: unknown }).data;
      output.note(typeof data === 'string' ? printable(data) : JSON.stringify(data, null, 2));
    } catch (error) {
      output.note(output.style('red', printable((await failureOf(error, this.#cli.last)).message)));
    }
  }

  /** Prints a line of text, or a JSON document if stdout is not a terminal. */
  #say(color: 'red' | 'green' | 'cyan', line: string, value: object): void {
    const { output } = this.#cli;
    output.item(value, () => output.style(color, line));
  }
}

const listOf = (paths: readonly string[]): string =>
  paths.length <= SHOWN_PATHS
    ? paths.join(', ')
    : `${paths.slice(0, SHOWN_PATHS).join(', ')} and ${paths.length - SHOWN_PATHS} more`;
