import { GetCallerIdentityCommand } from '@aws-sdk/client-sts';
import type { StageFile } from '#lib/config.ts';
import { clientsOf, obstacleOf, reasonOf, UNREAD } from './account.ts';
import { CHECKS, type Check, type Finding, type Patient, readStack } from './checks.ts';

export interface Diagnosis {
  readonly stage: string;
  readonly region?: string;
  readonly account?: string;
  readonly findings: readonly Finding[];
}

/** Checks that read at the same time: Service Quotas and CloudFormation throttle more. */
const AT_ONCE = 4;

/**
 * Reads the account of the credentials and reports what a deployment of the stage would meet there. Changes nothing.
 *
 * @param region Region of the deployment; `undefined` if neither environment nor profile names one
 */
export async function diagnose(stage: StageFile, region: string | undefined): Promise<Diagnosis> {
  const check = 'Credentials';
  const failed = (text: string, mend: string): Diagnosis => ({
    stage: stage.name,
    region,
    findings: [{ check, state: 'fails', text, mend }],
  });
  if (region === undefined)
    return failed('no Region is chosen', 'export AWS_REGION=eu-west-1, or the Region that you want');
  const clients = clientsOf(region);
  let account: string;
  let arn: string;
  try {
    const identity = await clients.sts.send(new GetCallerIdentityCommand());
    [account, arn] = [identity.Account!, identity.Arn!];
  } catch (error) {
    return failed(...whyNobody(error as Error, region));
  }
  const stacks = new Map<string, ReturnType<typeof readStack>>();
  const patient: Patient = {
    stage,
    account,
    partition: arn.split(':')[1]!,
    region,
    clients,
    stack(name) {
      const reading = stacks.get(name) ?? readStack(clients, stage, name);
      stacks.set(name, reading);
      return reading;
    },
  };
  const found: Finding = { check, state: 'ok', text: `${arn} in ${region}` };
  const relevant = CHECKS.filter(({ concerns }) => concerns?.(stage) ?? true);
  const findings: Finding[] = new Array(relevant.length);
  const queue = relevant.entries();
  const work = async () => {
    for (const [i, each] of queue) findings[i] = await findingOf(each, patient);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  for (const client of Object.values(clients)) client.destroy();
  return { stage: stage.name, region, account, findings: [found, ...findings] };
}

async function findingOf({ name: check, run }: Check, patient: Patient): Promise<Finding> {
  try {
    return { check, ...(await run(patient)) };
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    if (code !== UNREAD) throw error;
    return { check, state: 'unknown', text: message };
  }
}

/** Says why AWS does not know the caller. */
function whyNobody(error: Error, region: string): [text: string, mend: string] {
  if (obstacleOf(error) === 'unreachable') {
    return [
      reasonOf(error, 'sts:GetCallerIdentity'),
      `check that ${region} is a Region of AWS, and the network of this machine`,
    ];
  }
  if (/^(InvalidClientTokenId|UnrecognizedClientException|SignatureDoesNotMatch|AuthFailure)$/.test(error.name)) {
    return [
      `AWS does not accept the credentials in ${region} (${error.name})`,
      `use valid credentials; a Region that the account has not enabled answers the same: aws account get-region-opt-status --region-name ${region}`,
    ];
  }
  if (/Expired/.test(error.name)) return ['the credentials have expired', 'sign in again: aws sso login, or new keys'];
  if (error.name === 'CredentialsProviderError') {
    return ['there are no credentials', 'export AWS_PROFILE=…, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY'];
  }
  return [reasonOf(error, 'sts:GetCallerIdentity'), 'mend this first: nothing else can be read'];
}
