/** Where templates are taken to be deployed, and what emulators take for themselves. */
export const TEST_REGION = 'eu-west-1';
export const TEST_ACCOUNT = '111122223333';

/** What every SDK client of a test needs beside its endpoint. */
export const AWS_TEST_ACCOUNT = {
  region: 'us-east-1',
  credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
} as const;
