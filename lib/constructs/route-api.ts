import { Aws, RemovalPolicy, Validations } from 'aws-cdk-lib';
import {
  AccessLogField,
  AccessLogFormat,
  ApiDefinition,
  EndpointType,
  LogGroupLogDestination,
  MethodLoggingLevel,
  SpecRestApi,
  type SpecRestApiProps,
} from 'aws-cdk-lib/aws-apigateway';
import { InterfaceVpcEndpoint } from 'aws-cdk-lib/aws-ec2';
import { AnyPrincipal, Effect, PolicyDocument, PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import { httpStatusOf } from '#core/base/errors.ts';
import { CALL_FUNCTION_SECONDS } from '#core/base/time-limits.ts';
import { type FunctionName, pathParameters, type Route } from '#core/http/route.ts';
import { functionNameOf, platformNameOf, type Stage } from '../config.ts';
import { GATEWAY_ERRORS, gatewayErrorBody } from '../gateway-errors.ts';
import { removalPolicyOf } from '../removal.ts';

/** Above the longest call, and above the 300 s without a byte after which API Gateway cuts a stream. */
const STREAM_TIMEOUT_MS = CALL_FUNCTION_SECONDS * 1000;
const BUFFERED_TIMEOUT_MS = 29_000;

export interface RouteApiProps {
  readonly stage: Stage;
  readonly routes: readonly Route[];
}

/**
 * The route table as an API Gateway REST API: one method per row, integrated with the row's function, streaming if the row
 * says so. Every other method of a path goes to `meta`, which answers 405 with the allowed methods.
 *
 * The API is one document: methods as resources of their own would take most of the 500 that a stack may have. The document names its
 * functions instead of referring to them, because they need the address of the API; {@link RouteApi.serveBy} joins both.
 */
export class RouteApi extends Construct {
  readonly restApi: SpecRestApi;

  constructor(scope: Construct, id: string, { stage, routes }: RouteApiProps) {
    super(scope, id);
    const accessLog = new LogGroup(this, 'AccessLog', {
      logGroupName: `/aws/apigateway/${platformNameOf(stage)}`,
      retention: stage.logRetentionDays,
      removalPolicy: removalPolicyOf(stage),
    });
    this.restApi = new SpecRestApi(this, 'Rest', {
      apiDefinition: ApiDefinition.fromInline(definitionOf(stage, routes)),
      restApiName: platformNameOf(stage),
      ...accessOf(this, stage),
      cloudWatchRole: stage.setsLoggingRole,
      ...(stage.setsLoggingRole && { cloudWatchRoleRemovalPolicy: RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE }),
      deployOptions: {
        stageName: stage.name,
        // The gateway's traces would show paths, and a webhook's path holds its secret. Functions write their own traces.
        tracingEnabled: false,
        throttlingRateLimit: stage.throttle.requestsPerSecond,
        throttlingBurstLimit: stage.throttle.burst,
        loggingLevel: MethodLoggingLevel.ERROR,
        accessLogDestination: new LogGroupLogDestination(accessLog),
        accessLogFormat: ACCESS_LOG,
      },
    });
    this.#addExecutionLog(stage);
    this.#acknowledge();
  }

  /** Lets the API call its functions. It is deployed after them, so that no method goes to a function that is not there yet. */
  serveBy(functions: Iterable<IFunction>): void {
    for (const fn of functions) {
      fn.addPermission('api', {
        principal: new ServicePrincipal('apigateway.amazonaws.com'),
        sourceArn: this.restApi.arnForExecuteApi('*', '/*', '*'),
      });
      this.restApi.deploymentStage.node.addDependency(fn);
    }
  }

  /** Otherwise API Gateway creates this log group, and it is never deleted. */
  #addExecutionLog(stage: Stage): void {
    const log = new LogGroup(this, 'ExecutionLog', {
      logGroupName: `API-Gateway-Execution-Logs_${this.restApi.restApiId}/${stage.name}`,
      retention: stage.logRetentionDays,
      removalPolicy: removalPolicyOf(stage),
    });
    this.restApi.deploymentStage.node.addDependency(log);
  }

  #acknowledge(): void {
    const keysAreOurs =
      'core/api/auth.ts checks the API key of each request, on both hosts: a revoked key must stop working at once.';
    Validations.of(this).acknowledge(
      {
        id: 'AwsSolutions-APIG2',
        reason: 'core/api/app.ts checks every request against the schemas of its row, on both hosts.',
      },
      {
        id: 'AwsSolutions-APIG3',
        reason: 'A web ACL costs money per month and request: the stage file may ask for one.',
      },
      { id: 'AwsSolutions-APIG4', reason: keysAreOurs },
      { id: 'AwsSolutions-COG4', reason: keysAreOurs },
      {
        id: 'AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs]',
        reason: 'API Gateway writes its logs with one role per account and Region; this is its policy.',
      },
    );
  }
}

/**
 * The methods of the route table as API Gateway imports them, with its own extensions of OpenAPI. It does not describe the
 * API: `GET /openapi.json` does.
 */
function definitionOf(stage: Stage, routes: readonly Route[]): object {
  const streaming = new Set(routes.filter(({ stream }) => stream).map(({ fn }) => fn));
  const operation = (fn: FunctionName, path: string, operationId?: string) => ({
    operationId,
    parameters: pathParameters(path).map((name) => ({
      name,
      in: 'path',
      required: true,
      schema: { type: 'string' },
    })),
    responses: { 200: { description: 'What the function answers' } },
    'x-amazon-apigateway-integration': integrationWith(calledNameOf(stage, fn), streaming.has(fn)),
  });
  const paths: Record<string, Record<string, object>> = {};
  for (const { path, method, fn, operationId } of routes) {
    paths[path] ??= { 'x-amazon-apigateway-any-method': operation('meta', path) };
    paths[path][method.toLowerCase()] = operation(fn, path, operationId);
  }
  return {
    openapi: '3.0.1',
    info: { title: platformNameOf(stage), version: '1' },
    paths,
    // Listed, not `*/*`: only these bodies are not text.
    'x-amazon-apigateway-binary-media-types': ['multipart/form-data'],
    'x-amazon-apigateway-gateway-responses': gatewayErrorsOf(stage),
  };
}

/** Alias of the version of a function that is kept started. */
export const LIVE = 'live';
const calledNameOf = (stage: Stage, fn: FunctionName): string =>
  functionNameOf(stage, fn) + (fn in stage.concurrency.provisioned ? `:${LIVE}` : '');

/** Who reaches the API: docs.aws.amazon.com/apigateway/latest/developerguide/apigateway-resource-policies-examples.html. */
function accessOf(
  scope: Construct,
  { access: { vpcEndpointIds, ranges }, domain }: Stage,
): Pick<SpecRestApiProps, 'endpointConfiguration' | 'policy' | 'disableExecuteApiEndpoint'> {
  const vpcEndpoints = vpcEndpointIds?.map((vpcEndpointId, index) =>
    InterfaceVpcEndpoint.fromInterfaceVpcEndpointAttributes(scope, `endpoint-${index}`, { vpcEndpointId, port: 443 }),
  );
  const isPrivate = vpcEndpoints !== undefined;
  const unless = [
    isPrivate && { StringNotEquals: { 'aws:SourceVpce': vpcEndpointIds } },
    ranges && { NotIpAddress: { [isPrivate ? 'aws:VpcSourceIp' : 'aws:SourceIp']: ranges } },
  ].filter((condition) => condition !== false && condition !== undefined);
  const invoke = { principals: [new AnyPrincipal()], actions: ['execute-api:Invoke'], resources: ['execute-api:/*'] };
  return {
    endpointConfiguration: isPrivate
      ? { types: [EndpointType.PRIVATE], vpcEndpoints }
      : { types: [EndpointType.REGIONAL] },
    // Whoever avoided the domain would show no certificate.
    ...(domain?.mtls && { disableExecuteApiEndpoint: true }),
    ...(unless.length > 0 && {
      policy: new PolicyDocument({
        statements: [
          new PolicyStatement(invoke),
          ...unless.map((conditions) => new PolicyStatement({ ...invoke, effect: Effect.DENY, conditions })),
        ],
      }),
    }),
  };
}

/** {@link https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-swagger-extensions-integration.html} */
function integrationWith(functionName: string, isStream: boolean): object {
  const [api, action] = isStream ? ['2021-11-15', 'response-streaming-invocations'] : ['2015-03-31', 'invocations'];
  const { PARTITION, REGION, ACCOUNT_ID } = Aws;
  const lambda = `arn:${PARTITION}:lambda:${REGION}:${ACCOUNT_ID}:function:${functionName}`;
  return {
    type: 'aws_proxy',
    httpMethod: 'POST',
    uri: `arn:${PARTITION}:apigateway:${REGION}:lambda:path/${api}/functions/${lambda}/${action}`,
    responseTransferMode: isStream ? 'STREAM' : 'BUFFERED',
    timeoutInMillis: isStream ? STREAM_TIMEOUT_MS : BUFFERED_TIMEOUT_MS,
  };
}

/** What API Gateway answers by itself, in the platform's error envelope. */
function gatewayErrorsOf(stage: Stage): object {
  const answers = Object.entries(GATEWAY_ERRORS).map(([type, { code, waitSeconds }]) => {
    const headers = {
      ...CORS,
      ...(waitSeconds !== undefined && { 'Retry-After': `'${waitSeconds}'` }),
      ...(type === 'THROTTLED' && throttled(stage)),
    };
    const answer = {
      statusCode: String(httpStatusOf(code)),
      responseParameters: Object.fromEntries(
        Object.entries(headers).map(([name, value]) => [`gatewayresponse.header.${name}`, value]),
      ),
      responseTemplates: { 'application/json': gatewayErrorBody(type, '$context.requestId') },
    };
    return [type, answer];
  });
  return Object.fromEntries(answers);
}

/** CORS headers of the platform's own answers, in the notation of API Gateway. */
const CORS = { 'Access-Control-Allow-Origin': "'*'", 'Access-Control-Expose-Headers': "'*'" };

/** The stage's throttle counts all callers together, per second. */
const throttled = ({ throttle }: Stage): Record<string, string> => ({
  'X-RateLimit-Limit': `'${throttle.requestsPerSecond}'`,
  'X-RateLimit-Remaining': "'0'",
});

/** Without query and headers: they may hold secrets. */
const ACCESS_LOG = AccessLogFormat.custom(
  JSON.stringify({
    time: AccessLogField.contextRequestTime(),
    request_id: AccessLogField.contextRequestId(),
    ip: AccessLogField.contextIdentitySourceIp(),
    method: AccessLogField.contextHttpMethod(),
    resource: AccessLogField.contextResourcePath(),
    status: AccessLogField.contextStatus(),
    bytes: AccessLogField.contextResponseLength(),
    latency_ms: AccessLogField.contextResponseLatency(),
    integration_latency_ms: AccessLogField.contextIntegrationLatency(),
    error: AccessLogField.contextErrorMessage(),
  }),
);
