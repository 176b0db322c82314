import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'local',
          include: ['**/*.test.ts'],
          exclude: ['**/*.aws.test.ts', '**/node_modules/**', 'dist/**', 'cdk.out/**', 'examples/**'],
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          name: 'aws',
          include: ['**/*.aws.test.ts'],
          exclude: ['test/rehearsal/**', '**/node_modules/**', 'dist/**', 'cdk.out/**'],
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
