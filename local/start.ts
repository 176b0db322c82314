import { flushCompileCache } from 'node:module';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { configFolder, saveLocalProfile } from '#client/profiles.ts';
import { createCode, START_CODE_LIFE_MS } from '#core/accounts/sign-in/codes.ts';
import { bootstrap, createOwnerKey, findOwnerKey } from '#core/accounts/workspaces/bootstrap.ts';
import { hasCode } from '#core/base/errors.ts';
import { grantCreditsTo, setPlanOf } from '#core/billing/operator/operate.ts';
import { SystemClock } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { COMMAND } from './command.ts';
import { type LocalConfig, parseLocalConfig } from './config.ts';
import { EXAMPLES_FOLDER, KEY_HINT, listExamples, publishExamples } from './demo/examples.ts';
import { type LocalDeps, localDeps } from './deps.ts';
import { isComplete, isMoveAction, MOVE_OPTIONS, MOVE_OPTIONS_HELP, moveWorkspace } from './moves.ts';
import { findOllama, ollamaLine } from './ollama.ts';
import { startLocalServer } from './server.ts';

const HELP = `Usage: npm start [-- OPTIONS]

Runs the platform on this machine. The first start creates a workspace, publishes the agents of examples/, and prints
an API key, only once.

Options:
  --no-examples   do not publish the examples
  --child         run as a child process: exit when stdin closes, and do not sign in the command line
  --new-key       create another API key of the owner, print it and exit
  --set-plan SLUG=PLAN         set the plan of a workspace (free, pro, team, enterprise) and exit
  --grant-credits SLUG=CENTS   add credits to a workspace and exit
  --move ACTION [SLUG]         move a workspace to or from another data folder and exit (docs/cells.md):
                               export, import, close, open, cancel, forget
  --help          show this

Options of --move:
${MOVE_OPTIONS_HELP}

Stop the platform before you use --new-key, --set-plan, --grant-credits or --move.

Settings are environment variables, such as PLATFORM_PORT and PLATFORM_DATA: see docs/settings.md.
`;

const say = (line: string): void => {
  process.stdout.write(`${line}\n`);
};

function options() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        ...MOVE_OPTIONS,
        move: { type: 'string' },
        help: { type: 'boolean', default: false },
        'new-key': { type: 'boolean', default: false },
        'set-plan': { type: 'string' },
        'grant-credits': { type: 'string' },
        'no-examples': { type: 'boolean', default: false },
        child: { type: 'boolean', default: false },
      },
    });
    const [workspace, ...others] = positionals;
    const { move } = values;
    const isMove = isMoveAction(move) && others.length === 0 && isComplete(move, workspace, values);
    if (move === undefined ? positionals.length > 0 : !isMove) throw new Error('This is no command');
    return { ...values, workspace, move: isMoveAction(move) ? move : undefined };
  } catch (error) {
    throw new Error(`${(error as Error).message.split('. To specify')[0]}\n\n${HELP}`);
  }
}

/** Runs an operator's command on the data of a stopped platform and prints its result. */
async function operate(config: LocalConfig, order: (deps: LocalDeps) => Promise<string>): Promise<void> {
  const deps = await localDeps({ ...config, sandboxPrestart: 0 }, config);
  try {
    say(await order(deps));
  } finally {
    await deps.close();
  }
}

const newKey = async (deps: Deps): Promise<string> => (await createOwnerKey(deps, 'made by the operator')).key;

/** Signs in this user's command line. If the profile cannot be written, the user still has the printed key. */
async function signIn(url: string, key: string): Promise<void> {
  try {
    const profile = await saveLocalProfile(configFolder(), { url, key });
    say(`Signed in: ${COMMAND} agents --profile ${profile}`);
  } catch (error) {
    say(`The command line is not signed in: ${(error as Error).message}`);
  }
}

/** Only on a terminal: everyone who reads a log could sign in with the link. */
async function showSignIn(deps: LocalDeps): Promise<void> {
  const key = process.stdout.isTTY ? await findOwnerKey(deps) : undefined;
  if (key === undefined) return;
  const { url } = await createCode(deps, key, { lifeMs: START_CODE_LIFE_MS });
  say(`Sign in:   ${url}   <- open in a browser within ten minutes; works once`);
}

async function start(config: LocalConfig, withExamples: boolean, isChild: boolean): Promise<void> {
  const ollama = await findOllama(config, new SystemClock());
  const server = await startLocalServer({ ...config, ...ollama?.settings });
  let stopping = false;
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (!stopping) say('Stopping: waiting for calls in progress. Press Ctrl+C again to stop immediately.');
      server.close(stopping).then(() => process.exit(0));
      stopping = true;
    });
  }

  // The pipe closes when the parent ends, however it ends.
  if (isChild) process.stdin.resume().on('end', () => server.close().then(() => process.exit(0)));

  const { deps, url } = server;
  const { kind, problem, limits, interpreters } = await deps.sandbox.status();
  if (kind === 'unsandboxed')
    say('WARNING: PLATFORM_SANDBOX=unsandboxed: agents run with all permissions of this user.');
  if (problem) say(`WARNING: agents that are programs cannot run here. ${problem}`);
  const key = await bootstrap(deps);
  // Printed immediately, so that it is not lost if the first start is interrupted.
  if (key) {
    say(`API key:   ${key}   <- shown only once; store it safely`);
    if (!isChild) await signIn(url, key);
  }
  if (withExamples) await publishExamples(server, say);
  // Saves the cache even if the process is killed later.
  flushCompileCache();
  // On a terminal the dashboard is built at once; otherwise on the first visit.
  if (process.stdout.isTTY) void server.dashboard.prepare();

  const languages = Object.entries(interpreters).map(([name, version]) => `${name} ${version}`);
  say('');
  say(`Platform:  ${url}`);
  say(`Data:      ${config.dataFolder}`);
  say(`Sandbox:   ${kind}${languages.length > 0 ? ` (${languages.join(', ')})` : ''}`);
  if (limits) say(`Limits:    enforced by ${limits.by === 'kernel' ? 'the kernel' : 'polling'} (${limits.detail})`);
  if (ollama) say(`Models:    ${ollamaLine(ollama)}`);
  if (!key) say(`API key:   printed at the first start; to create another: ${COMMAND} start --new-key`);
  await showSignIn(deps);
  if (!withExamples) return;
  const example = interpreters.python ? 'csv-insights' : 'html-to-markdown';
  say('');
  say('Call an agent:');
  say(`  curl -s ${url}/${config.workspaceSlug}/${example}/latest/run \\`);
  say(`    -H "Authorization: Bearer ${key ?? '$PLATFORM_API_KEY'}" \\`);
  say(`    -H "Content-Type: application/json" -d @${join(EXAMPLES_FOLDER, example, 'sample-input.json')}`);
  const others = listExamples().filter(({ needs_model_key: asksModel }) => asksModel);
  say('');
  say(`Agents that need a model provider key: ${others.map(({ name }) => name).join(', ')}.`);
  say(KEY_HINT);
  const services = listExamples().filter(({ isService }) => isService);
  say(
    `Services that you can deploy: ${services.map(({ name }) => name).join(', ')}. See the README.md of each in examples/.`,
  );
}

try {
  const flags = options();
  if (flags.help) {
    process.stdout.write(HELP);
  } else {
    // The only code that reads the environment of a local host.
    // biome-ignore lint/style/noProcessEnv: see above.
    const config = parseLocalConfig(process.env);
    const { 'new-key': wantsKey, 'set-plan': plan, 'grant-credits': credits, move, workspace } = flags;
    if (wantsKey) await operate(config, newKey);
    if (plan !== undefined) await operate(config, (deps) => setPlanOf(deps, plan));
    if (credits !== undefined) await operate(config, (deps) => grantCreditsTo(deps, credits));
    if (move !== undefined) {
      await operate(config, async (deps) => {
        await moveWorkspace({ ...deps, say, settleMs: 0 }, move, workspace, flags);
        return `Done: ${move}.`;
      });
    }
    if (!wantsKey && plan === undefined && credits === undefined && move === undefined) {
      await start(config, !flags['no-examples'], flags.child);
    }
  }
} catch (error) {
  const inUse = hasCode(error, 'EADDRINUSE');
  const hint = inUse
    ? '\nAnother program uses the port: set PLATFORM_PORT to a free port, or to 0 for any. If it is this platform, `platform status` shows it.'
    : '';
  process.stderr.write(`${(error as Error).message}${hint}\n`);
  process.exitCode = 1;
}
