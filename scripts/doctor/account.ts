import { ACMClient } from '@aws-sdk/client-acm';
import { APIGatewayClient } from '@aws-sdk/client-api-gateway';
import { CloudFormationClient } from '@aws-sdk/client-cloudformation';
import { CloudFrontClient } from '@aws-sdk/client-cloudfront';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { EC2Client } from '@aws-sdk/client-ec2';
import { ECSClient } from '@aws-sdk/client-ecs';
import { IAMClient } from '@aws-sdk/client-iam';
import { KMSClient } from '@aws-sdk/client-kms';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { LambdaMicrovmsClient } from '@aws-sdk/client-lambda-microvms';
import { Route53Client } from '@aws-sdk/client-route-53';
import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { ServiceQuotasClient } from '@aws-sdk/client-service-quotas';
import { SESv2Client } from '@aws-sdk/client-sesv2';
import { SNSClient } from '@aws-sdk/client-sns';
import { SSMClient } from '@aws-sdk/client-ssm';
import { STSClient } from '@aws-sdk/client-sts';

/** CloudFront accepts certificates of this Region only. */
export const CLOUDFRONT_REGION = 'us-east-1';

/** Clients of the account for one Region. None of the doctor's requests changes anything. */
export function clientsOf(region: string) {
  const settings = { region };
  return {
    acm: new ACMClient(settings),
    acmOfCloudFront: new ACMClient({ region: CLOUDFRONT_REGION }),
    apiGateway: new APIGatewayClient(settings),
    cloudFormation: new CloudFormationClient(settings),
    cloudFront: new CloudFrontClient(settings),
    dynamoDb: new DynamoDBClient(settings),
    ec2: new EC2Client(settings),
    ecs: new ECSClient(settings),
    iam: new IAMClient(settings),
    kms: new KMSClient(settings),
    lambda: new LambdaClient(settings),
    microvms: new LambdaMicrovmsClient(settings),
    quotas: new ServiceQuotasClient(settings),
    route53: new Route53Client(settings),
    secrets: new SecretsManagerClient(settings),
    ses: new SESv2Client(settings),
    sns: new SNSClient(settings),
    ssm: new SSMClient(settings),
    sts: new STSClient(settings),
  };
}

export type Clients = ReturnType<typeof clientsOf>;

const DENIED = /^(AccessDenied(Exception)?|AuthorizationError(Exception)?|UnauthorizedOperation|NotAuthorized)$/;
const THROTTLED = /^(Throttling(Exception)?|ThrottledException|TooManyRequests(Exception)?|RequestLimitExceeded)$/;
const UNREACHABLE = /^(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT)$/;
/** Answers of a Region that does not offer a service or an action. */
const NOT_OFFERED =
  /^(UnsupportedFeatureException|UnsupportedOperationException|UnknownOperationException|InvalidAction)$/;

interface AwsError {
  readonly name?: string;
  readonly code?: string;
  readonly message?: string;
  readonly hostname?: string;
}

/** Why a request had no result. */
export type Obstacle = 'denied' | 'throttled' | 'unreachable' | 'not-offered' | 'other';

export function obstacleOf({ name = '', code = '' }: AwsError): Obstacle {
  if (DENIED.test(name)) return 'denied';
  if (THROTTLED.test(name)) return 'throttled';
  if (UNREACHABLE.test(code) || name === 'TimeoutError') return 'unreachable';
  return NOT_OFFERED.test(name) ? 'not-offered' : 'other';
}

/** Returns the reason that a person is told, which names the right that is missing. */
export function reasonOf(error: AwsError, action: string): string {
  switch (obstacleOf(error)) {
    case 'denied':
      return `these credentials may not ${action}`;
    case 'throttled':
      return `AWS throttles ${action}: run the doctor again in a minute`;
    case 'unreachable':
      return `${error.hostname ?? 'AWS'} cannot be reached for ${action} (${error.code ?? error.name})`;
    case 'not-offered':
      return `this Region does not offer ${action}`;
    default:
      return `${action} failed: ${error.name}: ${String(error.message).slice(0, 200)}`;
  }
}

/** Code of the error of a request whose result a check cannot do without. */
export const UNREAD = 'UNREAD';

/**
 * Sends a request. Returns `undefined` if AWS answers with one of the error names in `absent`. Throws an error with the
 * code `UNREAD` and the reason otherwise.
 *
 * @param action right that the request needs, as in an IAM policy
 */
export async function read<Result>(
  action: string,
  request: () => Promise<Result>,
  absent: readonly string[] = [],
): Promise<Result | undefined> {
  try {
    return await request();
  } catch (error) {
    if (absent.includes((error as AwsError).name ?? '')) return undefined;
    throw Object.assign(new Error(reasonOf(error as AwsError, action)), {
      code: UNREAD,
      obstacle: obstacleOf(error as AwsError),
    });
  }
}
