/** The account and region of templates and emulators. */
export const TEST_REGION = 'eu-west-1';
export const TEST_ACCOUNT = '111122223333';

/** Settings of every SDK client in tests, without its endpoint. */
export const AWS_TEST_ACCOUNT = {
  region: 'us-east-1',
  credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
} as const;
