import { writeFile } from 'node:fs/promises';
import { basename, resolve } from 'node:path';
import { type Command, Option } from '@commander-js/extra-typings';
import { EXIT, UsageError } from '#client/usage-error.ts';
import type { Client } from '#core/api/client.ts';
import { heldText } from '#core/base/held-text.ts';
import { readFolder } from '../publishing/read-folder.ts';
import { readReference } from '../shared/agent-reference.ts';
import type { Cli, Configure } from '../shared/cli.ts';
import { type Answer, FollowedRun } from '../shared/followed-run.ts';
import { readBytes, readJson } from '../shared/input.ts';
import { duration, printable } from '../shared/output.ts';
import { isResponse } from '../signing-in/connection.ts';

const DETACH_MS = 3_000;

const declare = (command: Command) =>
  command
    .argument('<agent>', 'Agent or version: agent, agent@v2, org/agent or org/agent@v2; a folder with --local')
    .argument('[input]', 'JSON input file, or - for stdin')
    .option('-d, --data <json>', 'Input: JSON, @file, or - for stdin')
    .addOption(new Option('--input <json>', 'The same as --data').conflicts(['data']).hideHelp())
    .option(
      '-f, --file <path>',
      'File to upload, or - for stdin (repeatable)',
      (path, all: string[] | undefined): string[] => [...(all ?? []), path],
    )
    .option('--endpoint <name>', 'Endpoint to call', 'run')
    .option('--tenant <id>', 'Your customer, for usage by tenant (`platform usage tenants`)')
    .option('--skills <list>', 'Comma-separated skills to add, such as org/skill@v1')
    .option('--max-hops <number>', 'Maximum depth of sub-calls')
    .option('--deadline <seconds>', 'Time limit for the answer')
    .option('--idempotency-key <key>', 'Repeated calls with the same key return the first answer')
    .option('--detach', 'Print the run ID without waiting for the answer')
    .addOption(new Option('--async', 'The same as --detach').implies({ detach: true }).hideHelp())
    .addOption(
      new Option('--at <time>', 'Begin then, such as 2026-12-01T09:00+01:00; implies --detach').implies({
        detach: true,
      }),
    )
    .addOption(
      new Option('--delay <time>', 'Begin after this time, such as 90s, 10m, 12h or 3d; implies --detach')
        .implies({ detach: true })
        .conflicts(['at']),
    )
    .option(
      '--priority <number>',
      'With --detach: from -10 to 10; among runs that wait for their turn, higher ones begin first',
    )
    .option('--webhook <url>', 'With --detach: address to which the end of the run is posted')
    .option('--no-stream', 'Do not stream progress')
    .option('-o, --output <file>', 'Write the answer to a file')
    .addOption(new Option('--local', 'Run the agent of a folder on a temporary local platform').conflicts(['detach']));

type RunOptions = ReturnType<ReturnType<typeof declare>['opts']>;

const run: Configure = (command, cli) => {
  declare(command)
    .addHelpText(
      'after',
      '\nExamples:\n  $ platform run hello --data \'{"name": "Ada"}\'\n  $ platform run ./hello --local',
    )
    .action(async (agent, input, options) => {
      if (options.local) return runHere(cli, agent, await bodyOf(cli, input, options), options);
      const { org, agent: name, version } = await readReference(cli, agent);
      const body = await bodyOf(cli, input, options);
      const client = await cli.client();
      const answer = await client.callAgent({
        params: { org, agent: name, version, endpoint: options.endpoint },
        body,
        headers: headersOf(options, options.stream && !options.detach),
      });
      const ended = options.detach
        ? (answer as unknown as Answer)
        : await answerOf(cli, client, { answer, workspaceId: () => cli.workspaceId(), onInterrupt: interruption });
      await show(cli, ended, options);
      if (!cli.output.isJson) noteWhat(cli, `${org}/${name}`, ended);
    });
};

/**
 * Runs an agent on a temporary platform: in the same sandbox, with its dependencies from sibling folders, and secrets
 * from environment variables. Everything is deleted afterwards.
 */
async function runHere(cli: Cli, given: string, body: unknown, options: RunOptions): Promise<void> {
  const { env, exit, onInterrupt, cwd } = cli.host;
  const [{ orgOf, PublishedFolder }, { keyNameOf, MODEL_PROVIDERS }, { startOwnPlatform }] = await Promise.all([
    import('../testing/run-tests.ts'),
    import('../testing/model-recorder.ts'),
    import('../testing/test-platform.ts'),
  ]);
  const folder = resolve(cwd, given);
  await readFolder(cli, given);
  const org = await orgOf(folder);
  cli.output.note('Starting a temporary platform');
  const platform = await startOwnPlatform(cli.host, org, {});
  const leave = () => void platform.close().finally(() => exit(EXIT.interrupted));
  const stop = onInterrupt(leave);
  try {
    for (const name of MODEL_PROVIDERS.map(keyNameOf)) {
      const params = { workspace_id: platform.workspaceId };
      if (env[name]) await platform.client.putSecret({ params, body: { name, value: env[name] } });
    }
    const published = new PublishedFolder(platform, folder);
    await published.publishNeeds(env);
    const answer = await platform.client.callAgent({
      params: { ...(await published.versionFor()), endpoint: options.endpoint },
      body,
      headers: headersOf(options, options.stream),
    });
    const { client, workspaceId } = platform;
    const source = { answer, workspaceId: async () => workspaceId, onInterrupt: () => leave };
    await show(cli, await answerOf(cli, client, source), options);
  } finally {
    stop();
    await platform.close();
  }
}

/** Notes the version that `latest` resolved to, and the duration. */
function noteWhat({ output }: Cli, agent: string, { metadata }: Answer): void {
  if (metadata === undefined) return;
  const { version, processing_time_ms: ms } = metadata;
  output.note(output.style('dim', `${agent}@${version}${ms === undefined ? '' : ` in ${duration(ms)}`}`));
}

async function bodyOf(cli: Cli, input: string | undefined, options: RunOptions): Promise<unknown> {
  const { data = options.input, file = [] } = options;
  if (input !== undefined && data !== undefined)
    throw new UsageError('Pass the input either as a file or with --data, not both.');
  const given = data ?? (input === undefined || input === '-' ? input : `@${input}`);
  const json = given === undefined ? {} : await readJson(cli.host, given);
  if (file.length === 0) return json;
  const form = new FormData();
  for (const path of file) {
    const bytes = await readBytes(cli.host, path);
    form.append('files[]', new Blob([bytes]), path === '-' ? 'stdin' : basename(path));
  }
  form.append('metadata', JSON.stringify(json));
  return form;
}

function headersOf(options: RunOptions, streams: boolean): Record<string, string> {
  const { tenant, skills, maxHops, deadline, idempotencyKey, webhook, at, delay, priority } = options;
  if (webhook !== undefined && !options.detach) throw new UsageError('--webhook needs --detach.');
  if (priority !== undefined && !options.detach) throw new UsageError('--priority needs --detach.');
  if (deadline !== undefined && !(Number(deadline) > 0)) {
    throw new UsageError(`Invalid --deadline "${deadline}": must be a number of seconds.`);
  }
  return {
    ...(streams && { accept: 'text/event-stream' }),
    ...(options.detach && { prefer: 'respond-async' }),
    ...(webhook !== undefined && { 'x-platform-webhook': webhook }),
    ...(at !== undefined && { 'x-platform-run-at': timeOf(at) }),
    ...(delay !== undefined && { 'x-platform-delay-seconds': String(secondsOf(delay)) }),
    ...(priority !== undefined && { 'x-platform-priority': priority }),
    ...(tenant !== undefined && { 'x-platform-tenant': tenant }),
    ...(skills !== undefined && { 'x-platform-skills': skills }),
    ...(maxHops !== undefined && { 'x-platform-max-hops': maxHops }),
    ...(deadline !== undefined && { 'x-platform-deadline-ms': String(Date.now() + Number(deadline) * 1000) }),
    ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
  };
}

/** Reads a time; one without an offset is in the zone of this machine. */
function timeOf(at: string): string {
  const time = new Date(at);
  if (!Number.isNaN(time.getTime())) return time.toISOString();
  throw new UsageError(`Invalid --at "${at}": must be a time such as 2026-12-01T09:00+01:00.`);
}

const UNITS = { s: 1, m: 60, h: 3600, d: 24 * 3600 } as const;

function secondsOf(delay: string): number {
  const [, count, unit = 's'] = /^(\d{1,7})([smhd])?$/.exec(delay) ?? [];
  if (count !== undefined) return Number(count) * UNITS[unit as keyof typeof UNITS];
  throw new UsageError(`Invalid --delay "${delay}": must be a time such as 90s, 10m, 12h or 3d.`);
}

interface Source {
  /** What the call was answered. */
  readonly answer: unknown;
  readonly workspaceId: () => Promise<string>;
  /** Returns what Ctrl-C does while the run is followed. */
  readonly onInterrupt: (cli: Cli, run: FollowedRun) => () => void;
}

/**
 * Returns the answer of a call that waits for it. Shows the steps of the run on stderr until it ends, wherever its events
 * continue. Throws the run's error.
 */
async function answerOf(cli: Cli, client: Client, { answer, workspaceId, onInterrupt }: Source): Promise<Answer> {
  if (!isResponse(answer) && !isAccepted(answer)) return answer as Answer;
  const run = isResponse(answer)
    ? new FollowedRun(cli, client, answer.headers.get('x-run-id') ?? '', workspaceId)
    : new FollowedRun(cli, client, answer.run_id, async () => answer.url.split('/')[2]!);
  const stop = cli.host.onInterrupt(onInterrupt(cli, run));
  try {
    return await (isResponse(answer) ? run.readStream(answer) : run.follow());
  } finally {
    stop();
    run.bar.end();
  }
}

const isAccepted = (answer: unknown): answer is { readonly run_id: string; readonly url: string } =>
  typeof answer === 'object' && answer !== null && 'run_id' in answer && 'url' in answer;

/** The first Ctrl-C detaches from the run, a second one soon after cancels it. */
function interruption(cli: Cli, { runId, bar }: FollowedRun): () => void {
  let isSecond = false;
  const short = runId.slice(0, 8);
  return () => {
    bar.end();
    if (isSecond) {
      const leave = () => cli.host.exit(EXIT.interrupted);
      void cli
        .client()
        .then(async (client) => client.cancelRun({ params: { workspace_id: await cli.workspaceId(), run_id: runId } }))
        .then(() => cli.output.note(`Cancelled run ${short}.`))
        .then(leave, leave);
      return;
    }
    isSecond = true;
    cli.output.note(
      `\nThe run continues: see \`platform logs ${short}\`. To cancel it, press Ctrl-C again, or run \`platform cancel ${short}\`.`,
    );
    setTimeout(() => cli.host.exit(EXIT.interrupted), DETACH_MS).unref();
  };
}

async function show(cli: Cli, answer: Answer, { output: file }: RunOptions): Promise<void> {
  for (const { code, message } of answer.warnings ?? []) cli.output.warn(`${code}: ${message}`);
  if (answer.run_id !== undefined && answer.data === undefined) {
    cli.output.result(answer, ({ run_id }) => run_id!);
    const short = answer.run_id.slice(0, 8);
    if (answer.run_at !== undefined) cli.output.note(`It begins at ${answer.run_at}.`);
    if (answer.held_by !== undefined) cli.output.note(`It ${printable(heldText(answer.held_by))}.`);
    cli.output.note(`To follow it, run \`platform logs ${short} -f\`; to cancel it, \`platform cancel ${short}\`.`);
    return;
  }
  if (file !== undefined) {
    await writeFile(resolve(cli.host.cwd, file), `${JSON.stringify(answer.data, null, 2)}\n`);
    cli.output.note(`Wrote the answer to ${file}.`);
    return;
  }
  cli.output.result(answer, ({ data }) => (typeof data === 'string' ? printable(data) : JSON.stringify(data, null, 2)));
}

export default run;
