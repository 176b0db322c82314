import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { devPlatform } from '../dev/project-platform.ts';
import { DevSession } from '../dev/session.ts';
import { watchFolder } from '../dev/watch.ts';
import type { Cli, Configure } from '../shared/cli.ts';
import { printable } from '../shared/output.ts';
import { openPage } from './open.ts';

const HELP = `
Publishes to your personal version "dev" on every change and shows its runs; call it as AGENT@dev. If no platform is running
on this machine, starts one for the project, with its data in .platform/local/, and stops it on exit.

Keys: r rerun, i edit the input and run, t run the tests, l show the log of the last run, o open the last run in the
browser, c clear the screen, q quit.

Examples:
  $ platform dev
  $ platform dev ./orchestrator ./worker`;

/** A terminal in raw mode does not send a signal for Ctrl-C. */
const CTRL_C = '\u0003';

const dev: Configure = (command, cli) => {
  command
    .argument('[folders...]', 'Folders of the agents (default: the current folder)')
    .addHelpText('after', HELP)
    .action(async (given) => {
      const folders = given.length === 0 ? ['.'] : given;
      const end = new AbortController();
      const stopListening = cli.host.onInterrupt(() => end.abort());
      const platform = await devPlatform(cli, resolve(cli.host.cwd, folders[0]!));
      const closing: (() => Promise<void> | void)[] = [];
      try {
        const session = new DevSession(platform.cli, folders);
        // Watching starts first, so that no change is missed.
        for (const { path } of session.folders) {
          closing.push(await watchFolder(path, (paths) => void session.changed(path, paths)));
        }
        // A wrong key ends the command; later errors are only shown.
        await platform.cli.workspaceId();
        const following = session.follow(end.signal);
        await Promise.all(session.folders.map(({ path }) => session.changed(path, [])));
        const { url } = await platform.cli.connection();
        cli.output.note(
          `Watching for changes. Platform: ${url}. ${cli.isInteractive ? 'Keys: r i t l o c q' : 'Press Ctrl-C to stop.'}`,
        );
        if (cli.isInteractive) closing.push(readKeys(platform.cli, session, end));
        if (!end.signal.aborted) await once(end.signal, 'abort');
        await following;
      } finally {
        for (const close of closing) await close();
        await platform.stop();
        stopListening();
      }
      // A run started with a key may still be in flight; it continues without this command.
      if (cli.isInteractive) cli.host.exit(0);
    });
};

/** Keys of long actions, which run one at a time: a run, the editor, the tests. */
const LONG = ['r', 'i', 't'];

/** Reads keys until the returned function is called. */
function readKeys(cli: Cli, session: DevSession, end: AbortController): () => void {
  const { stdin } = process;
  let isBusy = false;
  /** Last key pressed in the meantime. */
  let next: string | undefined;
  const actions: Readonly<Record<string, () => Promise<void> | void>> = {
    r: () => session.run(),
    i: async () => {
      const edited = await edit(cli, await session.input());
      if (edited !== undefined) await session.run(edited);
    },
    t: () => runTests(cli, session.lastFolder, end.signal),
    l: () => showLog(cli, session.lastRun),
    o: () => openPage(cli, session.lastRun === undefined ? {} : { show: 'run', id: session.lastRun }),
    c: () => void cli.host.stderr.write('\u001b[2J\u001b[H'),
  };
  const onKeys = (keys: Buffer) => {
    for (const key of keys.toString()) onKey(key);
  };
  const onKey = (key: string) => {
    if (key === 'q' || key === CTRL_C) return end.abort();
    const action = actions[key];
    if (action === undefined) return;
    const isLong = LONG.includes(key);
    if (isLong && isBusy) {
      next = key;
      return;
    }
    isBusy ||= isLong;
    void Promise.resolve(action())
      .catch((error: Error) => cli.output.error(error.message))
      .finally(() => {
        if (!isLong) return;
        isBusy = false;
        const waiting = next;
        next = undefined;
        if (waiting !== undefined) onKey(waiting);
      });
  };
  stdin.setRawMode(true);
  stdin.resume().on('data', onKeys);
  return () => {
    stdin.off('data', onKeys).pause();
    stdin.setRawMode(false);
  };
}

/** Opens the input in the user's editor. Returns `undefined` if the result is not JSON. */
async function edit(cli: Cli, input: unknown): Promise<unknown> {
  const folder = await mkdtemp(join(tmpdir(), 'platform-input-'));
  const file = join(folder, 'input.json');
  try {
    await writeFile(file, `${JSON.stringify(input, null, 2)}\n`, { mode: 0o600 });
    process.stdin.setRawMode(false);
    process.stdin.pause();
    const editor = cli.host.env.VISUAL ?? cli.host.env.EDITOR ?? 'vi';
    await new Promise((done, failed) => {
      // The editor may include flags, as in git.
      spawn(`${editor} "${file}"`, { shell: true, stdio: 'inherit' }).once('exit', done).once('error', failed);
    });
    return JSON.parse(await readFile(file, 'utf8'));
  } catch (error) {
    cli.output.error(`Could not edit the input: ${(error as Error).message}`);
    return undefined;
  } finally {
    process.stdin.setRawMode(true);
    process.stdin.resume();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Runs `platform test` as a child process against the same platform. */
async function runTests(cli: Cli, folder: string, signal: AbortSignal): Promise<void> {
  const { profile, url, workspace } = cli.options;
  const flags = Object.entries({ profile, url, workspace }).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}`, value],
  );
  const child = spawn(process.execPath, [process.argv[1]!, 'test', folder, ...flags], {
    env: cli.host.env,
    stdio: ['ignore', process.stderr, process.stderr],
    signal,
    killSignal: 'SIGINT',
  });
  await new Promise((done, failed) => {
    child.once('exit', done).once('error', failed);
  });
}

async function showLog(cli: Cli, runId: string | undefined): Promise<void> {
  if (runId === undefined) return cli.output.note('There are no runs yet.');
  const params = { workspace_id: await cli.workspaceId(), run_id: runId };
  const { stdout, stderr, error_message } = await (await cli.client()).getRunLogs({ params });
  for (const text of [stdout, stderr, error_message]) if (text) cli.output.note(printable(text).trimEnd());
}

export default dev;
