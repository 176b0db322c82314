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
          exclude: ['**/node_modules/**', 'dist/**', 'cdk.out/**'],
          globalSetup: ['test/helpers/aws-emulators.ts'],
          testTimeout: 60_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
});
