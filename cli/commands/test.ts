import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { Option } from 'commander';
import { readReference } from '../agent-reference.ts';
import type { Cli, Configure } from '../cli.ts';
import { UsageError } from '../failure.ts';
import { printable } from '../output.ts';
import { readFolder } from '../read-folder.ts';
import { type NamedFixture, readFixtures } from '../testing/fixtures.ts';
import { junit } from '../testing/junit.ts';
import { keyNameOf, MODEL_PROVIDERS, startModelRecorder } from '../testing/model-recorder.ts';
import {
  callFixture,
  orgOf,
  PublishedFolder,
  readRecording,
  recordingOf,
  runFixture,
  type TestResult,
} from '../testing/run-tests.ts';
import { startOwnPlatform } from '../testing/test-platform.ts';

interface TestOptions {
  readonly llm?: 'mock' | 'record';
  readonly live?: boolean;
  readonly junit?: string;
}

const MARKS = { passed: ['green', '✓'], failed: ['red', '✗'], skipped: ['yellow', '-'] } as const;

const test: Configure = (command, cli) => {
  command
    .argument('[folder]', 'the agent’s folder', '.')
    .addOption(
      new Option('--llm <mode>', 'mock: models answer from tests/*.llm.json; record: ask them, and keep their answers')
        .choices(['mock', 'record'])
        .conflicts('live'),
    )
    .option('--live', 'call the published agent on the platform that you are signed in to')
    .option('--junit <file>', 'also write the results as JUnit’s XML')
    .addHelpText('after', '\nExample:\n  $ platform test ./hello')
    .action(async (given: string, options: TestOptions) => {
      const folder = resolve(cli.host.cwd, given);
      const { body } = await readFolder(cli, given);
      const fixtures = await readFixtures(folder);
      if (fixtures.length === 0) {
        throw new UsageError(`${join(given, 'tests')} has no fixture: add one, such as tests/fixture-first.json.`, {
          hint: '{"input": {}, "expected_output": {}}',
        });
      }
      const results = options.live
        ? await testLive(cli, folder, body.name, fixtures)
        : await testHere(cli, folder, fixtures, options.llm ?? 'mock');
      if (options.junit !== undefined) await writeFile(resolve(cli.host.cwd, options.junit), junit(body.name, results));
      const failed = results.filter(({ status }) => status === 'failed').length;
      const skipped = results.filter(({ status }) => status === 'skipped').length;
      const passed = results.length - failed - skipped;
      cli.output.result({ ok: failed === 0, passed, failed, skipped, tests: results }, () =>
        [
          ...results.map((result) => inWords(cli, result)),
          `${passed} passed, ${failed} failed, ${skipped} skipped`,
        ].join('\n'),
      );
      if (failed > 0) throw new UsageError(`${failed} of ${results.length} tests failed.`, { exitCode: 1 });
    });
};

/** On a platform of the tests' own, whose models are recorded or replayed. */
async function testHere(
  cli: Cli,
  folder: string,
  fixtures: readonly NamedFixture[],
  mode: 'mock' | 'record',
): Promise<TestResult[]> {
  const { env, fetch, onInterrupt, exit } = cli.host;
  const records = mode === 'record';
  const providers = records
    ? MODEL_PROVIDERS.filter((provider) => env[keyNameOf(provider)])
    : await recordedProviders(folder, fixtures);
  if (records && providers.length === 0) {
    throw new UsageError(`There is no key to ask a model with: set ${MODEL_PROVIDERS.map(keyNameOf).join(' or ')}.`);
  }
  cli.output.note('starting a platform for the tests');
  const recorder = await startModelRecorder(env, fetch);
  const platform = await startOwnPlatform(cli.host, await orgOf(folder), recorder.settings).catch(async (error) => {
    await recorder.close();
    throw error;
  });
  const stop = onInterrupt(() => void platform.close().finally(() => exit(130)));
  try {
    for (const provider of providers) {
      // The real key stays with the recorder: the platform has one that opens nothing.
      const body = { name: keyNameOf(provider), value: `sk-${'recorded-'.repeat(4)}` };
      await platform.client.putSecret({ params: { workspace_id: platform.workspaceId }, body });
    }
    const published = new PublishedFolder(platform, folder);
    await published.publishNeeds(env);
    const results: TestResult[] = [];
    for (const fixture of fixtures) {
      const agent = await published.versionFor(fixture.mocks);
      const call = () => callFixture(platform.client, platform.workspaceId, folder, agent, fixture);
      results.push(await runFixture(fixture, call, { recorder, records, folder }));
    }
    return results;
  } finally {
    stop();
    await platform.close();
    await recorder.close();
  }
}

/** Providers whose answers are recorded. Without any, one: the test then says what is missing. */
async function recordedProviders(folder: string, fixtures: readonly NamedFixture[]) {
  const all = await Promise.all(fixtures.map((fixture) => readRecording(join(folder, recordingOf(fixture)))));
  const names = new Set(all.flat().map(({ provider }) => provider));
  const found = MODEL_PROVIDERS.filter((provider) => names.has(provider));
  return found.length > 0 ? found : MODEL_PROVIDERS.slice(0, 1);
}

/** On the connected platform, with its models. */
async function testLive(
  cli: Cli,
  folder: string,
  name: string,
  fixtures: readonly NamedFixture[],
): Promise<TestResult[]> {
  const agent = { ...(await readReference(cli, name)), endpoint: 'run' };
  const client = await cli.client();
  const workspaceId = await cli.workspaceId();
  const results: TestResult[] = [];
  for (const fixture of fixtures) {
    if (fixture.mocks !== undefined) {
      const failures = ['it has mocks, and a published agent runs its own tools'];
      results.push({ name: fixture.name, file: fixture.path, status: 'skipped', seconds: 0, cost_usd: 0, failures });
    } else {
      results.push(await runFixture(fixture, () => callFixture(client, workspaceId, folder, agent, fixture)));
    }
  }
  return results;
}

function inWords({ output }: Cli, { name, status, seconds, failures }: TestResult): string {
  const [style, mark] = MARKS[status];
  const head = `${output.style(style, mark)} ${name}  ${output.style('dim', `${seconds.toFixed(1)} s`)}`;
  return [head, ...failures.map((failure) => `    ${printable(failure)}`)].join('\n');
}

export default test;
