import { relative } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** The slowest files of `npm test`, started first so that the workers finish together. */
const SLOWEST_FIRST = [
  'test/e2e/local.test.ts',
  'local/sandbox/local-sandbox.test.ts',
  'runner/runner.test.ts',
  'test/sdk/wire.test.ts',
  'test/examples/examples.test.ts',
  'test/sdk/platform.test.ts',
  'aws/fargate/sandbox.test.ts',
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

const NEVER = ['**/node_modules/**', 'dist/**', 'cdk.out/**'];

export default defineConfig({
  test: {
    // By default Vitest leaves one core free: on two cores that is one worker.
    maxWorkers: '100%',
    sequence: { sequencer: SlowestFirst },
    projects: [
      {
        test: {
          name: 'local',
          include: ['**/*.test.ts'],
          exclude: ['**/*.aws.test.ts', '**/*.heavy.test.ts', ...NEVER, 'examples/**'],
          // Files share the modules of their worker: no file replaces a module or a global.
          isolate: false,
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          // Crashes under load, large uploads and real registries: one file at a time, each may fill the machine.
          name: 'heavy',
          include: ['**/*.heavy.test.ts'],
          exclude: [...NEVER],
          fileParallelism: false,
          testTimeout: 120_000,
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          name: 'aws',
          include: ['**/*.aws.test.ts'],
          exclude: ['test/rehearsal/**', ...NEVER],
          globalSetup: ['test/helpers/aws-emulators.ts'],
          testTimeout: 60_000,
          hookTimeout: 120_000,
        },
      },
      {
        test: {
          // The deployed form of the platform, see docs/architecture.md.
          name: 'rehearsal',
          include: ['test/rehearsal/*.rehearsal.ts', 'test/rehearsal/*.aws.test.ts'],
          globalSetup: ['test/helpers/aws-emulators.ts'],
          // Each is a deployment: they build the same bundles, and fill the machine.
          fileParallelism: false,
          testTimeout: 240_000,
          hookTimeout: 120_000,
        },
      },
      {
        test: {
          // A platform that is running, see scripts/e2e.ts.
          name: 'elsewhere',
          include: ['test/e2e/remote.e2e.ts'],
          runner: './test/e2e/remote-runner.ts',
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
});
