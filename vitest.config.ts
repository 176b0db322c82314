import { availableParallelism } from 'node:os';
import { join, relative } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type Reporter, type TestCase, type TestSpecification, type Vitest } from 'vitest/node';

/** The slowest files of the suites, started first so that the workers finish together. */
const SLOWEST_FIRST = [
  'test/rehearsal/platform.rehearsal.ts',
  'test/rehearsal/second-half.rehearsal.ts',
  'test/rehearsal/faults.rehearsal.ts',
  'aws/microvm/sandbox.aws.test.ts',
  'test/stacks/templates.aws.test.ts',
  'test/stacks/package.aws.test.ts',
  'runner/sandbox.heavy.test.ts',
  'test/scripts/package.heavy.test.ts',
  'runner/service/task.heavy.test.ts',
  'runner/sandbox/reuse.heavy.test.ts',
  'test/cli/test-command.heavy.test.ts',
  'test/docs/commands.heavy.test.ts',
  'test/examples/examples.heavy.test.ts',
  'test/examples/services.heavy.test.ts',
  'core/execution/engines/managed-loop.heavy.test.ts',
  'test/e2e/local.test.ts',
  'local/sandbox/bubblewrap.heavy.test.ts',
  'local/sandbox/unshare.heavy.test.ts',
  'runner/runner.test.ts',
  'test/sdk/wire.test.ts',
  'test/sdk/platform.test.ts',
  'aws/fargate/sandbox.aws.test.ts',
];

class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rankOf = ({ moduleId }: TestSpecification): number => {
      const index = SLOWEST_FIRST.indexOf(relative(import.meta.dirname, moduleId));
      return index < 0 ? SLOWEST_FIRST.length : index;
    };
    return (await super.sort(files)).sort((a, b) => rankOf(a) - rankOf(b));
  }
}

const MAX_ERROR_CHARACTERS = 4000;
/** In one suite. More are no chance: the run fails. */
const MAX_SECOND_TRIES = 5;
/** Under `CI=true` no other tests may be skipped: these need what a machine of CI may lack. */
const MAY_BE_SKIPPED = [
  // A Docker engine, and an image to begin with.
  /^(local\/image\.heavy|runner\/image\.aws)\.test\.ts > [^>]*\(not tried: (no Docker engine|the image cannot be built)/,
  // A kernel that lets ordinary users make namespaces.
  /^local\/sandbox\/(bubblewrap|unshare)\.heavy\.test\.ts > .*it works for an ordinary user \(not tried:/,
  /^test\/stacks\/package\.aws\.test\.ts > .*\(not tried: no Terraform\)/,
  // The rehearsal of Fargate has them.
  /^test\/rehearsal\/microvm\.rehearsal\.ts > dependencies of Python /,
];

/**
 * Names the tests that passed at their second try, with what failed before, since the default reporter shows them as
 * passed, and in CI those that were skipped.
 */
class Exceptions implements Reporter {
  /** Not where tests are chosen by their names. */
  #refusesSkips = false;
  #secondTries = 0;
  #skipped = 0;

  onInit({ config }: Vitest): void {
    this.#refusesSkips = process.env.CI === 'true' && config.testNamePattern === undefined;
  }

  onTestCaseResult(test: TestCase): void {
    const name = `${test.module.relativeModuleId} > ${test.fullName}`;
    const { retryCount = 0 } = test.diagnostic() ?? {};
    if (test.ok() && retryCount > 0) {
      this.#secondTries++;
      console.warn(`Passed at try ${1 + retryCount}: ${name}`);
      for (const { message, stack, diff } of test.result().errors ?? []) {
        console.warn([message, diff, stack].filter(Boolean).join('\n').slice(0, MAX_ERROR_CHARACTERS));
      }
    }
    const { state, note = 'no reason' } = test.result() as { state: string; note?: string };
    if (state !== 'skipped' || !this.#refusesSkips) return;
    const skipped = `${name} (${note})`;
    if (MAY_BE_SKIPPED.some((known) => known.test(skipped))) return;
    this.#skipped++;
    console.error(`Skipped, and may not be in CI: ${skipped}`);
  }

  onTestRunEnd(): void {
    if (this.#skipped > 0) this.#fail(`${this.#skipped} tests were skipped`);
    if (this.#secondTries > MAX_SECOND_TRIES) this.#fail(`${this.#secondTries} tests passed at their second try only`);
  }

  #fail(reason: string): void {
    console.error(`The run fails: ${reason}.`);
    process.exitCode = 1;
  }
}

const NEVER = ['**/node_modules/**', 'dist/**', 'cli/package/dist/**', 'cdk.out/**'];

/** Files that start the local server in workers of their own, which then have the server's `Request` and `Response`. */
const PLATFORMS = ['test/{cli,e2e,examples,routes,sdk}/**/*.test.ts', 'client/upload-bundle.test.ts'];
/** Files that start programs, sandboxes or servers: a machine that stalls for a second is no fault of the code. */
const PROCESSES = [
  '{aws,local,adapters/mcp,runner}/**/*.test.ts',
  'core/manifest/tool-commands/tool-command.test.ts',
  'core/execution/durable/files.test.ts',
  'core/execution/engines/{long-loops,managed-loop,session-loops,loop/stdio-servers,program/{detached,durable}-program}.test.ts',
  'functions/host.test.ts',
  'test/{docs,helpers,scripts}/**/*.test.ts',
  'test/path-costs.test.ts',
];
const HEAVY = '**/*.heavy.test.ts';
const AWS = '**/*.aws.test.ts';
/** Files that synthesise stages. */
const STACKS = [
  'test/{scale,stacks}/*.aws.test.ts',
  'test/rehearsal/{cloud-front,dependent-actions,rest-api}.aws.test.ts',
];

/**
 * What starts processes and sandboxes waits for them about half of the time, so that a third worker on two cores has work.
 * Projects of one command share one number: those with different numbers would run one after the other.
 */
const WAITING = { maxWorkers: Math.ceil(1.5 * availableParallelism()) };

const unit = {
  // The dashboard has a package.json of its own, whose imports cannot lead out of its folder.
  resolve: { alias: { '#core': join(import.meta.dirname, 'core') } },
  test: {
    name: 'unit',
    ...WAITING,
    include: ['**/*.test.ts'],
    exclude: [...PLATFORMS, ...PROCESSES, HEAVY, AWS, 'examples/**', ...NEVER],
    // Files share the modules of their worker: none of them replaces a module or a global.
    isolate: false,
    setupFiles: ['test/helpers/fast-check-seed.ts'],
    // Most are pure, or draw random values: what fails once is a fault.
    retry: 0,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
};

const processes = {
  test: {
    name: 'processes',
    ...WAITING,
    include: PROCESSES,
    exclude: [...PLATFORMS, HEAVY, AWS, ...NEVER],
    isolate: false,
    setupFiles: ['test/helpers/fast-check-seed.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
};

/** Every change relates to what starts a platform: while you write, `vitest related <file>` plays the routes alone. */
const isRelated = process.argv.includes('related');

const platform = {
  test: {
    name: 'platform',
    ...WAITING,
    // Files share the modules of their worker, and what the server replaces there: loading it takes a second each time.
    isolate: false,
    include: isRelated ? ['test/routes/*.test.ts'] : PLATFORMS,
    exclude: [HEAVY, AWS, ...NEVER],
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
};

const others = [
  {
    test: {
      // Crashes under load, large uploads, most seeds of the simulations, real registries, the sandbox suite of this
      // machine and of the runner, the release script, commands that a person types, the commands of the docs, all
      // examples, services, and the task that holds a service.
      name: 'heavy',
      ...WAITING,
      include: [HEAVY],
      setupFiles: ['test/helpers/fast-check-seed.ts'],
      exclude: NEVER,
      testTimeout: 30_000,
      hookTimeout: 60_000,
    },
  },
  {
    test: {
      // Projects of frameworks with their packages from the registries; the variable FRAMEWORKS names others.
      name: 'frameworks',
      include: ['test/{cli,wires}/*.frameworks.ts'],
      exclude: NEVER,
    },
  },
  {
    test: {
      name: 'aws',
      ...WAITING,
      include: [AWS],
      // Files share the modules of their worker, of which the clients of AWS alone take seconds to load.
      isolate: false,
      setupFiles: ['test/helpers/fast-check-seed.ts'],
      exclude: ['test/rehearsal/**', ...STACKS, ...NEVER],
      globalSetup: ['test/helpers/aws-emulators.ts'],
      testTimeout: 60_000,
      hookTimeout: 120_000,
    },
  },
  {
    test: {
      // The templates of the stacks, which need no emulators.
      name: 'stacks',
      ...WAITING,
      include: STACKS,
      exclude: NEVER,
      // Files share the CDK and the templates of their worker.
      isolate: false,
      globalSetup: ['test/helpers/install-cdk.ts'],
      setupFiles: ['test/helpers/fast-check-seed.ts'],
      testTimeout: 60_000,
      hookTimeout: 120_000,
    },
  },
  {
    test: {
      // The dashboard in a real Chromium, see dashboard/README.md.
      name: 'browser',
      include: ['dashboard/test/**/*.browser.ts'],
      globalSetup: ['dashboard/test/build.ts'],
      // Each file starts a platform in its worker, as those of the project `platform` do.
      isolate: false,
      // A test waits for its page about half of the time. With more workers, Chromium is short of processors.
      ...WAITING,
      // A check with axe takes seconds, and a page has four of them.
      testTimeout: 120_000,
      hookTimeout: 120_000,
    },
  },
  {
    test: {
      // The deployed form of the platform, see docs/architecture.md.
      name: 'rehearsal',
      include: ['test/rehearsal/*.rehearsal.ts', 'test/rehearsal/*.aws.test.ts'],
      exclude: [...STACKS, ...NEVER],
      globalSetup: ['test/helpers/install-cdk.ts', 'test/helpers/aws-emulators.ts'],
      testTimeout: 240_000,
      hookTimeout: 120_000,
    },
  },
  {
    test: {
      // A platform that is running, see scripts/e2e.ts.
      name: 'remote',
      include: ['test/e2e/remote.e2e.ts'],
      runner: './test/e2e/remote-runner.ts',
      testTimeout: 120_000,
      hookTimeout: 120_000,
    },
  },
];

export default defineConfig({
  test: {
    // By default Vitest leaves one core free: on two cores that is one worker.
    maxWorkers: '100%',
    globalSetup: ['test/helpers/temporary-folder.ts', 'test/helpers/seed.ts'],
    sequence: { sequencer: SlowestFirst },
    // Processes, sockets and processors are real here: a machine that stalls for a second is no fault of the code.
    retry: 1,
    // For the same reason: what does not come fails by this, and what comes ends the wait.
    expect: { poll: { timeout: 20_000 } },
    reporters: ['default', new Exceptions()],
    projects: isRelated ? [unit, processes, platform] : [unit, processes, platform, ...others],
  },
});
