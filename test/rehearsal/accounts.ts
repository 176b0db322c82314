import { AWS_TEST_ACCOUNT, TEST_REGION } from '#test/helpers/aws-account.ts';
import { accessKeyOf } from './aws-gate.ts';

/** Settings of an SDK client that signs as a principal. */
export const accountFor = (principal: string) => ({
  region: TEST_REGION,
  credentials: { ...AWS_TEST_ACCOUNT.credentials, accessKeyId: accessKeyOf(principal) },
});
