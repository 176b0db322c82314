import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { Option } from '@commander-js/extra-typings';
import { UsageError } from '#client/usage-error.ts';
import { watchFolder } from '../dev/watch.ts';
import { readFolder } from '../publishing/read-folder.ts';
import { readReference } from '../shared/agent-reference.ts';
import type { Cli, Configure } from '../shared/cli.ts';
import { failureOf } from '../shared/failure.ts';
import { printable } from '../shared/output.ts';
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

/** A platform on which an agent is tested. */
interface Place {
  test(name: string, fixtures: readonly NamedFixture[]): Promise<TestResult[]>;
  close(): Promise<void>;
}

const MARKS = { passed: ['green', '✓'], failed: ['red', '✗'], skipped: ['yellow', '-'] } as const;

const test: Configure = (command, cli) => {
  command
    .argument('[folder]', 'Folder of the agent', '.')
    .addOption(
      new Option(
        '--llm <mode>',
        'mock: replay model answers from tests/*.llm.json; record: call the models and save their answers',
      )
        .choices(['mock', 'record'])
        .conflicts('live'),
    )
    .option('--live', 'Test the published agent on the current platform')
    .option('--junit <file>', 'Also write the results as JUnit XML')
    .addOption(
      new Option('--watch', 'Rerun the tests on every change until Ctrl-C').conflicts(['llm', 'live', 'junit']),
    )
    .addHelpText('after', '\nExample:\n  $ platform test ./hello')
    .action(async (given, options) => {
      const folder = resolve(cli.host.cwd, given);
      // Fails early, before a platform is started.
      await readTests(cli, given);
      const place = options.live ? livePlace(cli, folder) : await ownPlace(cli, folder, options.llm ?? 'mock');
      try {
        if (options.watch) return await testAtEachChange(cli, given, place);
        const stop = cli.host.onInterrupt(() => void place.close().finally(() => cli.host.exit(130)));
        const results = await testOnce(cli, given, place, options.junit).finally(stop);
        const failed = results.filter(({ status }) => status === 'failed').length;
        if (failed > 0) throw new UsageError(`${failed} of ${results.length} tests failed.`, { exitCode: 1 });
      } finally {
        await place.close();
      }
    });
};

/** Reads the fixtures. Throws UsageError if there are none. */
async function readTests(cli: Cli, given: string) {
  const { body } = await readFolder(cli, given);
  const fixtures = await readFixtures(resolve(cli.host.cwd, given));
  if (fixtures.length > 0) return { name: body.name, fixtures };
  throw new UsageError(`No fixtures in ${join(given, 'tests')}. Add one, such as tests/fixture-first.json.`, {
    hint: '{"input": {}, "expected_output": {}}',
  });
}

async function testOnce(cli: Cli, given: string, place: Place, junitFile?: string): Promise<TestResult[]> {
  const { name, fixtures } = await readTests(cli, given);
  const results = await place.test(name, fixtures);
  if (junitFile !== undefined) await writeFile(resolve(cli.host.cwd, junitFile), junit(name, results));
  const failed = results.filter(({ status }) => status === 'failed').length;
  const skipped = results.filter(({ status }) => status === 'skipped').length;
  const passed = results.length - failed - skipped;
  cli.output.result({ ok: failed === 0, passed, failed, skipped, tests: results }, () =>
    [...results.map((result) => inWords(cli, result)), `${passed} passed, ${failed} failed, ${skipped} skipped`].join(
      '\n',
    ),
  );
  return results;
}

/**
 * Runs the tests on every change until Ctrl-C. If a folder cannot be tested, shows the reason and waits for the next
 * change.
 */
async function testAtEachChange(cli: Cli, given: string, place: Place): Promise<void> {
  const end = new AbortController();
  const stop = cli.host.onInterrupt(() => end.abort());
  let rounds: Promise<unknown> = Promise.resolve();
  let isWaiting = false;
  const round = async () => {
    isWaiting = false;
    await testOnce(cli, given, place).catch(async (error) =>
      cli.output.error((await failureOf(error, cli.last)).message),
    );
  };
  const again = () => {
    if (!isWaiting) rounds = rounds.then(round);
    isWaiting = true;
  };
  const unwatch = await watchFolder(resolve(cli.host.cwd, given), again);
  try {
    again();
    cli.output.note('Watching for changes. Press Ctrl-C to stop.');
    if (!end.signal.aborted) await once(end.signal, 'abort');
    await rounds;
  } finally {
    stop();
    await unwatch();
  }
}

/** Starts a platform for the tests, with recorded or replayed model answers. */
async function ownPlace(cli: Cli, folder: string, mode: 'mock' | 'record'): Promise<Place> {
  const { env, fetch } = cli.host;
  const records = mode === 'record';
  const keys = MODEL_PROVIDERS.filter((provider) => env[keyNameOf(provider)]);
  if (records && keys.length === 0) {
    throw new UsageError(`No model provider key: set ${MODEL_PROVIDERS.map(keyNameOf).join(' or ')}.`);
  }
  const org = await orgOf(folder);
  cli.output.note('Starting a platform for the tests');
  const recorder = await startModelRecorder(env, fetch);
  const platform = await startOwnPlatform(cli.host, org, recorder.settings).catch(async (error) => {
    await recorder.close();
    throw error;
  });
  let needs: Promise<void> | undefined;
  return {
    async test(_, fixtures) {
      for (const provider of records ? keys : await recordedProviders(folder, fixtures)) {
        // The platform gets a fake key; only the recorder has the real one.
        const body = { name: keyNameOf(provider), value: `sk-${'recorded-'.repeat(4)}` };
        await platform.client.putSecret({ params: { workspace_id: platform.workspaceId }, body });
      }
      const published = new PublishedFolder(platform, folder);
      needs ??= published.publishNeeds(env).catch((error) => {
        needs = undefined;
        throw error;
      });
      await needs;
      const results: TestResult[] = [];
      for (const fixture of fixtures) {
        const agent = await published.versionFor(fixture.mocks);
        const call = () => callFixture(platform.client, platform.workspaceId, folder, agent, fixture);
        results.push(await runFixture(fixture, call, { recorder, records, folder }));
      }
      return results;
    },
    async close() {
      await platform.close();
      await recorder.close();
    },
  };
}

/** Returns the providers with recorded answers. Without any, returns one, so that the test reports what is missing. */
async function recordedProviders(folder: string, fixtures: readonly NamedFixture[]) {
  const all = await Promise.all(fixtures.map((fixture) => readRecording(join(folder, recordingOf(fixture)))));
  const names = new Set(all.flat().map(({ provider }) => provider));
  const found = MODEL_PROVIDERS.filter((provider) => names.has(provider));
  return found.length > 0 ? found : MODEL_PROVIDERS.slice(0, 1);
}

/** Uses the connected platform and its models. */
const livePlace = (cli: Cli, folder: string): Place => ({
  async test(name, fixtures) {
    const agent = { ...(await readReference(cli, name)), endpoint: 'run' };
    const client = await cli.client();
    const workspaceId = await cli.workspaceId();
    const results: TestResult[] = [];
    for (const fixture of fixtures) {
      if (fixture.mocks !== undefined) {
        const failures = ['skipped: mocks are not supported for published agents'];
        results.push({ name: fixture.name, file: fixture.path, status: 'skipped', seconds: 0, cost_usd: 0, failures });
      } else {
        results.push(await runFixture(fixture, () => callFixture(client, workspaceId, folder, agent, fixture)));
      }
    }
    return results;
  },
  async close() {},
});

function inWords({ output }: Cli, { name, status, seconds, failures }: TestResult): string {
  const [style, mark] = MARKS[status];
  const head = `${output.style(style, mark)} ${name}  ${output.style('dim', `${seconds.toFixed(1)} s`)}`;
  return [head, ...failures.map((failure) => `    ${printable(failure)}`)].join('\n');
}

export default test;
