import { hash } from 'node:crypto';
import { Aws, Duration, FileSystem, Fn, Lazy, Stack, Validations } from 'aws-cdk-lib';
import { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import {
  type CfnFunction,
  WebFunction,
  WebFunctionAuthType,
  WebFunctionCode,
  WebFunctionRuntime,
} from 'aws-cdk-lib/aws-lambda';
import { FilterPattern, LogGroup, MetricFilter } from 'aws-cdk-lib/aws-logs';
import type { CfnBucket } from 'aws-cdk-lib/aws-s3';
import { Construct } from 'constructs';
import { CALL_FUNCTION_SECONDS, MAX_TIMEOUT_SECONDS } from '#core/base/time-limits.ts';
import { functionNameOf, metricNamespaceOf, type Stage } from '../config.ts';
import { FUNCTIONS, type FunctionSpec } from '../functions.ts';
import { removalPolicyOf } from '../removal.ts';
import { acknowledgeWildcard } from './acknowledge.ts';
import type { PlatformFunction } from './platform-function.ts';

export const CALL_SERVER = 'call-server';

/** Requests that one environment serves at once; Lambda lowers the number where memory or processor are short. */
const REQUESTS_AT_ONCE = 64;
/** Lambda's limits of environments. */
const ENVIRONMENTS = { min: 2, max: 10_000 };
/** Variables of a function that has its compile cache in a layer: there are no layers here. */
const OF_LAYERS = /^NODE_COMPILE_CACHE/;

export interface CallServerProps {
  readonly stage: Stage;
  /** The function `calls`, whose role and settings the server has too. */
  readonly calls: PlatformFunction;
  /** Folder of the bundle. */
  readonly bundle: string;
  /** Token that API Gateway sends with each request. */
  readonly gatewayToken: string;
}

/**
 * The rows of `calls` and `events` as one HTTP server in a Lambda Web Function (`functions/call-server`): calls that wait
 * for models share environments, which are billed for what they use. It has the role of the function `calls`, to which it
 * passes calls that do not wait for their result.
 *
 * Each revision has an endpoint of its own. The stage of the API names it in a variable, as it names the versions of
 * functions, so that a release tries and rolls back both alike.
 */
export class CallServer extends Construct {
  /** Name of the endpoint's host, known at deployment. */
  readonly host: string;

  constructor(scope: Construct, id: string, { stage, calls, bundle, gatewayToken }: CallServerProps) {
    super(scope, id);
    const { lambda } = calls;
    useEvents(calls);
    const versions = `arn:\${AWS::Partition}:lambda:\${AWS::Region}:\${AWS::AccountId}:function:${functionNameOf(stage, 'calls')}:*`;
    lambda.addToRolePolicy(new PolicyStatement({ actions: ['lambda:InvokeFunction'], resources: [Fn.sub(versions)] }));
    acknowledgeWildcard(calls, versions, 'The versions of this one function.');
    const logGroup = new LogGroup(this, 'Logs', {
      logGroupName: `/aws/lambda/${functionNameOf(stage, CALL_SERVER)}`,
      retention: stage.logRetentionDays,
      removalPolicy: removalPolicyOf(stage),
    });
    logGroup.grantWrite(lambda);
    const server = new WebFunction(this, 'Server', {
      // The names of web functions are unique among all Regions of an account.
      webFunctionName: `${functionNameOf(stage, CALL_SERVER)}-${Aws.REGION}`,
      code: WebFunctionCode.fromAssetToManagedBucket(bundle),
      runtime: WebFunctionRuntime.NODEJS_24_X,
      entryPoint: 'index.mjs',
      role: lambda.role!,
      logGroup,
      timeout: Duration.seconds(CALL_FUNCTION_SECONDS),
      maxConcurrencyPerEnvironment: REQUESTS_AT_ONCE,
      // Clients have API keys, and API Gateway its token.
      defaultEndpointAuth: WebFunctionAuthType.APPLICATION_MANAGED,
      defaultEndpoint: {
        endpointName: Lazy.string({ produce: () => endpointName() }),
        ...boundsOf(stage),
      },
    });
    const own = {
      POWERTOOLS_SERVICE_NAME: CALL_SERVER,
      PLATFORM_GATEWAY_TOKEN: gatewayToken,
      PLATFORM_CALL_FUNCTION: `${lambda.functionName}:${lambda.currentVersion.version}`,
      AWS_LAMBDA_NODEJS_ENTRYPOINT: 'index.mjs',
    };
    const { resourceRevision } = server;
    resourceRevision.addPropertyOverride(
      'ServiceConfig.EnvironmentVariables',
      // The stack still adds variables to the function.
      Lazy.any({ produce: () => ({ ...variablesOf(lambda.node.defaultChild as CfnFunction), ...own }) }),
    );
    const code = FileSystem.fingerprint(bundle);
    const endpointName = () => {
      const { Resources } = Stack.of(this).resolve(resourceRevision._toCloudFormation());
      const [{ Properties }] = Object.values<{ Properties: object }>(Resources) as [{ Properties: object }];
      return `r-${hash('sha256', JSON.stringify([code, Properties])).slice(0, 16)}`;
    };
    server.node.addDependency(lambda.role!);
    this.host = server.endpoint.domainName;
    this.#countLines(stage, logGroup);
    this.#acknowledge();
  }

  /** The metrics of the function `calls` from its log lines. */
  #countLines(stage: Stage, logGroup: LogGroup): void {
    const lines = {
      Failures: FilterPattern.stringValue('$.level', '=', 'ERROR'),
      ProviderFailures: FilterPattern.stringValue('$.message', '=', 'model provider failed'),
    };
    for (const [metricName, filterPattern] of Object.entries(lines)) {
      const metricNamespace = metricNamespaceOf(stage);
      new MetricFilter(this, metricName, { logGroup, filterPattern, metricNamespace, metricName, metricValue: '1' });
    }
  }

  /** Acknowledges findings about the CDK's own bucket and function for the code, one of each per stack. */
  #acknowledge(): void {
    const stack = Stack.of(this);
    const bucket = stack.node.findChild('AWSCDKWebFunctionAssetBucket');
    Validations.of(bucket).acknowledge({
      id: 'AwsSolutions-S1',
      reason: 'Only Lambda reads it: the code of one function.',
    });
    const copier = stack.node.children.find(({ node }) => node.id.startsWith('Custom::S3ObjectCopy'))!;
    const reason =
      "The CDK's function that copies the code at a deployment: its rights on the two buckets are the CDK's.";
    const bucketId = stack.getLogicalId(bucket.node.defaultChild as CfnBucket);
    const assets = `cdk-${stack.synthesizer.bootstrapQualifier}-assets-${stack.account}-${stack.region}`;
    acknowledgeWildcard(copier, `arn:${stack.partition}:s3:::${assets}/*`, reason);
    const wildcards = [
      ...['Abort', 'DeleteObject'].map((action) => `Action::s3:${action}*`),
      `Resource::<${bucketId}.Arn>/web-function/*`,
    ];
    Validations.of(copier).acknowledge(
      ...wildcards.map((wildcard) => ({ id: `AwsSolutions-IAM5[${wildcard}]`, reason })),
      {
        id: 'AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole]',
        reason,
      },
      { id: 'AwsSolutions-L1', reason: 'The CDK chooses the runtime of its function.' },
    );
    Validations.of(this).acknowledge({
      id: 'Annotation::@aws-cdk/aws-lambda:webFunctionPublicEndpoint',
      reason: 'functions/call-server.ts refuses requests without the token of the gateway, before it reads them.',
    });
  }
}

/** Adds to `calls` what only `events` needs. */
function useEvents(calls: PlatformFunction): void {
  const spec: FunctionSpec = FUNCTIONS.events;
  for (const [name, access] of Object.entries(spec.tables ?? {})) calls.useTable(name as never, access as never);
  if (spec.blobs) calls.useBlobs(spec.blobs);
}

/** Returns the variables of a function, as far as they concern a process without layers. */
function variablesOf(resource: CfnFunction): Record<string, unknown> {
  const { variables = {} }: { variables?: Record<string, unknown> } = Stack.of(resource).resolve(resource.environment);
  return Object.fromEntries(Object.entries(variables).filter(([name]) => !OF_LAYERS.test(name)));
}

/**
 * Bounds of the endpoint: no more requests than the gateway lets through, and no more environments than as many calls of
 * the longest duration need.
 */
function boundsOf({ throttle: { requestsPerSecond } }: Stage): { rateLimit: number; maxEnvironments: number } {
  const environments = Math.ceil((requestsPerSecond * MAX_TIMEOUT_SECONDS) / REQUESTS_AT_ONCE);
  return {
    rateLimit: rateLimitOf(requestsPerSecond),
    maxEnvironments: Math.min(ENVIRONMENTS.max, Math.max(ENVIRONMENTS.min, environments)),
  };
}

/** Returns the next rate that Lambda accepts: hundreds up to 1,000, thousands up to 10,000. */
function rateLimitOf(requestsPerSecond: number): number {
  const step = requestsPerSecond > 1000 ? 1000 : 100;
  return Math.min(10_000, Math.ceil(requestsPerSecond / step) * step);
}
