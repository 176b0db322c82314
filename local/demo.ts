import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bootstrap } from '#core/accounts/workspaces/bootstrap.ts';
import { parseLocalConfig } from './config.ts';
import { EXAMPLES_FOLDER, KEY_HINT, listExamples, publishExamples } from './examples.ts';
import { type LocalServer, startLocalServer } from './server.ts';

/**
 * `npm run demo`: starts a platform in a temporary folder on a free port, publishes the examples and calls each over HTTP
 * with its sample input, except those that ask a language model, because a new vault has no key. Exits with status 1
 * unless every example that this machine can run answered.
 */
const MAX_SHOWN_LINES = 25;

const say = (line: string): void => {
  process.stdout.write(`${line}\n`);
};

/** JSON from `sample-input.json`, else the files of `sample-files/`. */
function sampleInput(example: string): { body: string | FormData; shown: string } {
  const folder = join(EXAMPLES_FOLDER, example);
  const json = join(folder, 'sample-input.json');
  if (existsSync(json)) return { body: readFileSync(json, 'utf8'), shown: `-d @examples/${example}/sample-input.json` };
  const form = new FormData();
  const names = readdirSync(join(folder, 'sample-files')).sort();
  for (const name of names) form.append('files[]', new Blob([readFileSync(join(folder, 'sample-files', name))]), name);
  return { body: form, shown: names.map((name) => `-F files[]=@examples/${example}/sample-files/${name}`).join(' ') };
}

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

const dataFolder = mkdtempSync(join(tmpdir(), 'platform-demo-'));
const server = await startLocalServer(parseLocalConfig({ PLATFORM_DATA: dataFolder, PLATFORM_PORT: '0' }));
try {
  const { kind, problem, interpreters } = await server.deps.sandbox.status();
  say(`platform at ${server.url}, sandbox: ${kind}`);
  if (problem) throw new Error(problem);
  const key = await bootstrap(server.deps);
  await publishExamples(server, say);
  const { workspaceSlug } = server.deps.config;
  let failed = 0;
  const examples = listExamples();
  for (const { name, command } of examples.filter((each) => each.type !== 'skill' && !each.asksModel)) {
    if (command?.startsWith('python') && !interpreters.python) {
      say(`\nskipped examples/${name}: there is no python3 on this machine`);
    } else if (!(await call(server, key!, workspaceSlug, name))) {
      failed++;
    }
  }
  if (failed > 0) throw new Error(`${failed} of the examples failed`);
  say('\nEvery example that needs no language model answered. To keep a platform running: npm start');
  const others = examples.filter((each) => each.asksModel).map((each) => each.name);
  say(`With a key of a model provider, too: ${others.join(', ')}. ${KEY_HINT}`);
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`);
  process.exitCode = 1;
} finally {
  await server.close(true);
  rmSync(dataFolder, { recursive: true, force: true });
}
