import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { bootstrap } from '#core/accounts/workspaces/bootstrap.ts';
import { parseLocalConfig } from '../config.ts';
import { type LocalServer, startLocalServer } from '../server.ts';
import { showApproval } from './demo-approval.ts';
import { type DemoModel, startDemoModel } from './demo-model.ts';
import { showService } from './demo-service.ts';
import { EXAMPLES_FOLDER, KEY_HINT, listExamples, publishExamples } from './examples.ts';

/**
 * `npm run demo`: starts a platform in a temporary folder on a free port, publishes the examples and calls each over
 * HTTP with its sample input. Examples that use a language model are skipped, because a new vault has no key, but for
 * refund-desk, whose model the demo plays: its call waits for a person. Then it deploys and tests the first of the services.
 * Exits with status 1 if an example that this machine can run fails.
 */
const HELP = `Usage: npm run demo [-- OPTIONS]

Starts a platform in a temporary folder, publishes the agents of examples/, calls them, lets one wait for an approval,
deploys a service, and ends.

Options:
  --stay   keep the platform until Ctrl+C, to decide about the call that waits, and to look at the service in a browser
  --help   show this
`;
const MAX_SHOWN_LINES = 25;

const say = (line: string): void => {
  process.stdout.write(`${line}\n`);
};

/** Returns the JSON of `sample-input.json`, or else the files of `sample-files/`. */
function sampleInput(example: string): { body: string | FormData; shown: string } {
  const folder = join(EXAMPLES_FOLDER, example);
  const json = join(folder, 'sample-input.json');
  if (existsSync(json)) return { body: readFileSync(json, 'utf8'), shown: `-d @examples/${example}/sample-input.json` };
  const form = new FormData();
  const names = readdirSync(join(folder, 'sample-files')).sort();
  for (const name of names) form.append('files[]', new Blob([readFileSync(join(folder, 'sample-files', name))]), name);
  return { body: form, shown: names.map((name) => `-F files[]=@examples/${example}/sample-files/${name}`).join(' ') };
}

const isCalled = ({ type, isService, needs_model_key: asksModel }: ReturnType<typeof listExamples>[number]): boolean =>
  type !== 'skill' && !isService && !asksModel;

async function call(server: LocalServer, key: string, workspace: string, example: string): Promise<boolean> {
  const url = `${server.url}/${workspace}/${example}/latest/run`;
  const { body, shown } = sampleInput(example);
  say(`\n$ curl ${url} ${shown}`);
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      ...(typeof body === 'string' && { 'content-type': 'application/json' }),
    },
    body,
  });
  const lines = JSON.stringify(await response.json(), null, 2).split('\n');
  say(lines.slice(0, MAX_SHOWN_LINES).join('\n'));
  if (lines.length > MAX_SHOWN_LINES) say(`  ... ${lines.length - MAX_SHOWN_LINES} more lines`);
  return response.ok;
}

async function demo(stays: boolean): Promise<void> {
  const dataFolder = mkdtempSync(join(tmpdir(), 'platform-demo-'));
  let server: LocalServer | undefined;
  let model: DemoModel | undefined;
  try {
    model = await startDemoModel();
    server = await startLocalServer(
      parseLocalConfig({
        PLATFORM_DATA: dataFolder,
        PLATFORM_PORT: '0',
        PLATFORM_OLLAMA_URL: model.url,
        // What the demo does is on the terminal already.
        PLATFORM_LOG_LEVEL: 'warn',
      }),
    );
    await show(server, stays);
  } finally {
    await server?.close(true);
    await model?.close();
    rmSync(dataFolder, { recursive: true, force: true });
  }
}

async function show(server: LocalServer, stays: boolean): Promise<void> {
  const { kind, problem, interpreters } = await server.deps.sandbox.status();
  say(`platform at ${server.url}, sandbox: ${kind}`);
  if (problem) throw new Error(problem);
  const key = (await bootstrap(server.deps))!;
  await publishExamples(server, say);
  const { workspaceSlug } = server.deps.config;
  let failed = 0;
  const examples = listExamples();
  for (const { name, command } of examples.filter(isCalled)) {
    if (command?.startsWith('python') && !interpreters.python) {
      say(`\nskipped examples/${name}: there is no python3 on this machine`);
    } else if (!(await call(server, key, workspaceSlug, name))) {
      failed++;
    }
  }
  const approval = await showApproval(server, key, say);
  if (!stays) await approval.approve();
  const { url, password } = await showService(server, key, say);
  if (failed > 0) throw new Error(`${failed} of the examples failed`);
  say('\nEvery example that needs no language model answered, and the service runs.');
  const others = examples.filter((each) => each.needs_model_key).map((each) => each.name);
  say(`With a model provider key you can also run: ${others.join(', ')}. ${KEY_HINT}`);
  if (stays) {
    say(`\nOpen ${url} in a browser; the password is ${password}.`);
    say(`A refund waits for you: ${approval.url}   <- open in a browser within ten minutes; works once`);
    say('Ctrl+C stops the platform.');
    await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
    return;
  }
  say('\nThe platform stops now. Next steps:');
  say(
    '  npm run demo -- --stay   run the demo and keep the platform running, so that you can decide about a refund in the dashboard',
  );
  say('  npm start                start a platform that keeps its data');
  say('  examples/webhook-chat/README.md   the service on such a platform: deploy it, send webhooks, change it');
}

try {
  const { values } = parseArgs({ options: { stay: { type: 'boolean' }, help: { type: 'boolean' } } });
  if (values.help) say(HELP);
  else await demo(values.stay ?? false);
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`);
  process.exitCode = 1;
}
