import { Aws, Fn, RemovalPolicy, Validations } from 'aws-cdk-lib';
import {
  AccessLogField,
  AccessLogFormat,
  ApiDefinition,
  EndpointType,
  LogGroupLogDestination,
  type MethodDeploymentOptions,
  MethodLoggingLevel,
  SpecRestApi,
  type SpecRestApiProps,
} from 'aws-cdk-lib/aws-apigateway';
import { InterfaceVpcEndpoint } from 'aws-cdk-lib/aws-ec2';
import { AnyPrincipal, Effect, PolicyDocument, PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Alias, type Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import { httpStatusOf } from '#core/base/errors.ts';
import { CALL_FUNCTION_SECONDS } from '#core/base/time-limits.ts';
import { GATEWAY_HEADER, GATEWAY_ID_HEADER, SOURCE_HEADER } from '#core/http/front-headers.ts';
import { FUNCTION_NAMES, type FunctionName, pathParameters, type Route } from '#core/http/route.ts';
import { functionNameOf, platformNameOf, type Stage } from '../config.ts';
import { GATEWAY_ERRORS, gatewayErrorBody } from '../gateway-errors.ts';
import { removalPolicyOf } from '../removal.ts';
import { acknowledgeWildcard } from './acknowledge.ts';
import type { CallServer } from './call-server.ts';
import { Release } from './release.ts';

/** Longer than the longest call, and than the 300 idle seconds after which API Gateway closes a stream. */
const STREAM_TIMEOUT_MS = CALL_FUNCTION_SECONDS * 1000;
const BUFFERED_TIMEOUT_MS = 29_000;

/**
 * Part of the stage's rate that API Gateway accepts for one method by its authentication. Anybody can send requests to
 * these, and they then cost the platform, so each has a smaller limit than methods for which a key is needed. Webhooks
 * have more, because programs of many workspaces call the same method.
 */
const OPEN_SHARES: { readonly [Auth in Route['auth']]?: number } = {
  public: 0.1,
  optional: 0.1,
  'sign-in': 0.1,
  operator: 0.1,
  signature: 0.1,
  webhook: 0.5,
};
/** A stage with a low rate gives open methods no less than this, or all that it has. */
const MIN_OPEN_RATE = 50;

export interface RouteApiProps {
  readonly stage: Stage;
  readonly routes: readonly Route[];
  /** Function of each row. The API calls their current versions, all from one deployment. */
  readonly functions: ReadonlyMap<FunctionName, LambdaFunction>;
  /** Serves calls and streams of events. @default - their functions do */
  readonly callServer?: CallServerTarget | undefined;
  /** Folder with one bundle per function, built by scripts/build-functions.ts. */
  readonly bundles: string;
}

/** The server of calls, behind the API. */
export interface CallServerTarget {
  readonly server: CallServer;
  readonly gatewayToken: string;
}

/**
 * Rows that the server of calls serves: calls, and streams of events. Replays are answered before their work, and
 * webhooks and schedules may run programs.
 */
const SERVED = ['callAgent', 'callLoop', 'listRunSteps', 'putRunStep', 'listRunEvents', 'listWorkspaceEvents'];
/** Stage variable with the host of the server. */
const SERVER_VARIABLE = 'call_server';

/**
 * The route table as an API Gateway REST API: one method per row, integrated with the row's function, streaming if the
 * row says so. Every other method of a path goes to `meta`, which responds 405 with the allowed methods.
 *
 * The API is one document: methods as separate resources would use up most of the 500 that a stack may have. The
 * document names its functions instead of referring to them, because they need the address of the API. Stage variables
 * select the version of each function: the stage switches to those of a deployment at once, after {@link Release} has
 * tried them.
 */
export class RouteApi extends Construct {
  readonly restApi: SpecRestApi;
  readonly accessLog: LogGroup;

  constructor(scope: Construct, id: string, { stage, routes, functions, callServer, bundles }: RouteApiProps) {
    super(scope, id);
    const { variables, aliases } = this.#versionsOf(functions, stage);
    if (callServer) variables[SERVER_VARIABLE] = callServer.server.host;
    const { role, credentials } = this.#callerOf(stage);
    this.accessLog = new LogGroup(this, 'AccessLog', {
      logGroupName: accessLogNameOf(stage),
      retention: stage.logRetentionDays,
      removalPolicy: removalPolicyOf(stage),
    });
    this.restApi = new SpecRestApi(this, 'Rest', {
      apiDefinition: ApiDefinition.fromInline(definitionOf(stage, routes, credentials, callServer?.gatewayToken)),
      restApiName: platformNameOf(stage),
      ...accessOf(this, stage),
      cloudWatchRole: stage.setsLoggingRole,
      ...(stage.setsLoggingRole && { cloudWatchRoleRemovalPolicy: RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE }),
      deployOptions: {
        stageName: stage.name,
        variables,
        // The gateway's traces would show paths, and a webhook's path contains its secret. Functions write their own
        // traces.
        tracingEnabled: false,
        throttlingRateLimit: stage.throttle.requestsPerSecond,
        throttlingBurstLimit: stage.throttle.burst,
        methodOptions: openMethodsOf(stage, routes),
        loggingLevel: MethodLoggingLevel.ERROR,
        accessLogDestination: new LogGroupLogDestination(this.accessLog),
        accessLogFormat: ACCESS_LOG,
      },
    });
    const callable = [role, ...aliases, ...(callServer ? [callServer.server] : [])];
    this.restApi.deploymentStage.node.addDependency(...callable);
    if (stage.release.kind !== 'at-once') {
      const names = FUNCTION_NAMES.filter((fn) => routes.some((route) => route.fn === fn && route.stream));
      const streaming = names.map((fn) => ({
        functionName: functionNameOf(stage, fn),
        version: variables[variableOf(fn)]!,
      }));
      const settings = stage.release;
      const { restApi, accessLog } = this;
      const release = { stage, settings, restApi, variables, accessLog, streaming, callable, bundles };
      new Release(this, 'Release', release);
    }
    this.#addExecutionLog(stage);
    this.#acknowledge();
  }

  /**
   * Returns the stage variables with the version of each function, or an alias for one with provisioned concurrency.
   */
  #versionsOf(functions: ReadonlyMap<FunctionName, LambdaFunction>, { concurrency }: Stage) {
    const aliases: Alias[] = [];
    const named = [...functions].map(([fn, lambda]) => {
      const { currentVersion } = lambda;
      const provisionedConcurrentExecutions = concurrency.provisioned[fn];
      if (provisionedConcurrentExecutions === undefined) return [variableOf(fn), currentVersion.version];
      // Provisioned concurrency ends with the alias, which the next deployment replaces; the version is retained.
      const aliasName = `v${currentVersion.version}`;
      aliases.push(new Alias(lambda, 'kept', { aliasName, version: currentVersion, provisionedConcurrentExecutions }));
      return [variableOf(fn), aliasName];
    });
    const variables: Record<string, string> = Object.fromEntries(named);
    return { variables, aliases };
  }

  /**
   * Role with which the API calls its functions in any version: a permission per version would be an additional
   * resource.
   */
  #callerOf(stage: Stage) {
    const role = new Role(this, 'Caller', {
      description: 'API Gateway calls the functions of the API with this role.',
      assumedBy: new ServicePrincipal('apigateway.amazonaws.com'),
    });
    const prefix = `arn:\${AWS::Partition}:lambda:\${AWS::Region}:\${AWS::AccountId}:function:`;
    const arns = FUNCTION_NAMES.map((fn) => `${prefix}${functionNameOf(stage, fn)}:*`);
    role.addToPolicy(
      new PolicyStatement({ actions: ['lambda:InvokeFunction'], resources: arns.map((arn) => Fn.sub(arn)) }),
    );
    for (const arn of arns) acknowledgeWildcard(role, arn, 'The versions of one function.');
    return { role, credentials: role.roleArn };
  }

  /** Otherwise API Gateway would create this log group, which would never be deleted. */
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
        reason: 'A web ACL costs money per month and request: the stage file can enable one.',
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
 * Returns the methods of the route table in API Gateway's import format, with its OpenAPI extensions. It is not the
 * API's description: `GET /openapi.json` is.
 */
function definitionOf(
  stage: Stage,
  routes: readonly Route[],
  credentials: string,
  gatewayToken: string | undefined,
): object {
  const streaming = new Set(routes.filter(({ stream }) => stream).map(({ fn }) => fn));
  const operation = (path: string, integration: object, operationId?: string) => ({
    operationId,
    parameters: pathParameters(path).map((name) => ({
      name,
      in: 'path',
      required: true,
      schema: { type: 'string' },
    })),
    responses: { 200: { description: 'What the function answers' } },
    'x-amazon-apigateway-integration': integration,
  });
  const ofFunction = (fn: FunctionName) => ({
    ...integrationWith(calledNameOf(stage, fn), streaming.has(fn)),
    credentials,
  });
  const ofRow = (row: Route) =>
    gatewayToken !== undefined && SERVED.includes(row.operationId)
      ? serverIntegration(row, gatewayToken)
      : ofFunction(row.fn);
  const paths: Record<string, Record<string, object>> = {};
  for (const row of routes) {
    const { path, method, operationId } = row;
    paths[path] ??= { 'x-amazon-apigateway-any-method': operation(path, ofFunction('meta')) };
    paths[path][method.toLowerCase()] = operation(path, ofRow(row), operationId);
  }
  return {
    openapi: '3.0.1',
    info: { title: platformNameOf(stage), version: '1' },
    paths,
    // Not `*/*`: all other bodies are text.
    'x-amazon-apigateway-binary-media-types': ['multipart/form-data'],
    'x-amazon-apigateway-gateway-responses': gatewayErrorsOf(stage),
  };
}

/** Returns the settings of methods without a key. They replace all settings of the stage for these methods. */
function openMethodsOf(
  { throttle: { requestsPerSecond, burst } }: Stage,
  routes: readonly Route[],
): Record<string, MethodDeploymentOptions> {
  const limited = routes.flatMap(({ auth, method, path }): [string, MethodDeploymentOptions][] => {
    const share = OPEN_SHARES[auth];
    if (share === undefined) return [];
    const rate = Math.min(requestsPerSecond, Math.max(MIN_OPEN_RATE, Math.round(share * requestsPerSecond)));
    const throttlingBurstLimit = Math.ceil((burst * rate) / requestsPerSecond);
    const settings = { throttlingRateLimit: rate, throttlingBurstLimit, loggingLevel: MethodLoggingLevel.ERROR };
    return [[`${path}/${method}`, settings]];
  });
  return Object.fromEntries(limited);
}

/** Log group of the API's access log. */
export const accessLogNameOf = (stage: Stage): string => `/aws/apigateway/${platformNameOf(stage)}`;

/** Names of stage variables may not contain hyphens. */
const variableOf = (fn: FunctionName): string => fn.replaceAll('-', '_');
const calledNameOf = (stage: Stage, fn: FunctionName): string =>
  `${functionNameOf(stage, fn)}:\${stageVariables.${variableOf(fn)}}`;

/**
 * Returns the resource policy that restricts access to the API:
 * docs.aws.amazon.com/apigateway/latest/developerguide/apigateway-resource-policies-examples.html.
 */
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
    // Clients could bypass the domain, and with it the certificate check.
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

/**
 * Returns the integration of a row with the server of calls. A header that the gateway sets replaces one of the client;
 * all others, the query and the body are passed on.
 */
function serverIntegration({ path, method }: Route, gatewayToken: string): object {
  const ofPath = pathParameters(path).map((name) => [
    `integration.request.path.${name}`,
    `method.request.path.${name}`,
  ]);
  const header = (name: string, value: string) => [`integration.request.header.${name}`, value];
  return {
    type: 'http_proxy',
    httpMethod: method,
    uri: `https://\${stageVariables.${SERVER_VARIABLE}}${path}`,
    requestParameters: Object.fromEntries([
      ...ofPath,
      header(GATEWAY_HEADER, `'${gatewayToken}'`),
      header(SOURCE_HEADER, 'context.identity.sourceIp'),
      header(GATEWAY_ID_HEADER, 'context.requestId'),
    ]),
    responseTransferMode: 'STREAM',
    timeoutInMillis: STREAM_TIMEOUT_MS,
  };
}

/** Returns API Gateway's own responses in the platform's error envelope. */
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

/** CORS headers of the platform's own responses, in API Gateway's notation. */
const CORS = { 'Access-Control-Allow-Origin': "'*'", 'Access-Control-Expose-Headers': "'*'" };

/** Headers of a refusal by the stage's rate limit. API Gateway does not say whether the method has a lower one. */
const throttled = ({ throttle }: Stage): Record<string, string> => ({
  'X-RateLimit-Limit': `'${throttle.requestsPerSecond}'`,
  'X-RateLimit-Remaining': "'0'",
});

/** Omits query and headers, which may contain secrets. */
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
    // Type of a response that is API Gateway's own.
    error_type: AccessLogField.contextErrorResponseType(),
    // `true` for requests that the canary handled.
    canary: '$context.isCanaryRequest',
  })
    // A metric filter extracts it, which takes a number. Every request has one.
    .replace(/"(\$context\.responseLatency)"/, '$1'),
);
