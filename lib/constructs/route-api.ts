import { Duration, RemovalPolicy, Validations } from 'aws-cdk-lib';
import {
  AccessLogField,
  AccessLogFormat,
  AuthorizationType,
  EndpointType,
  LambdaIntegration,
  LogGroupLogDestination,
  MethodLoggingLevel,
  ResponseTransferMode,
  ResponseType,
  RestApi,
} from 'aws-cdk-lib/aws-apigateway';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import { httpStatusOf } from '#core/base/errors.ts';
import { CALL_FUNCTION_SECONDS } from '#core/base/time-limits.ts';
import { FUNCTION_NAMES, type FunctionName, type Route } from '#core/http/route.ts';
import type { Stage } from '../config.ts';
import { GATEWAY_ERRORS, gatewayErrorBody } from '../gateway-errors.ts';
import { removalPolicyOf } from '../removal.ts';

/** Above the longest call, and above the 300 s without a byte after which API Gateway cuts a stream. */
const STREAM_TIMEOUT = Duration.seconds(CALL_FUNCTION_SECONDS);
const BUFFERED_TIMEOUT = Duration.seconds(29);

export interface RouteApiProps {
  readonly stage: Stage;
  readonly routes: readonly Route[];
  readonly functionOf: (fn: FunctionName) => IFunction;
}

/**
 * The route table as an API Gateway REST API: one method per row, integrated with the row's function, streaming if the row
 * says so. Every other method of a path goes to `meta`, which answers 405 with the allowed methods.
 */
export class RouteApi extends Construct {
  readonly restApi: RestApi;

  constructor(scope: Construct, id: string, { stage, routes, functionOf }: RouteApiProps) {
    super(scope, id);
    const accessLog = new LogGroup(this, 'AccessLog', {
      logGroupName: `/aws/apigateway/platform-${stage.name}`,
      retention: stage.logRetentionDays,
      removalPolicy: removalPolicyOf(stage),
    });
    this.restApi = new RestApi(this, 'Rest', {
      restApiName: `platform-${stage.name}`,
      endpointTypes: [EndpointType.REGIONAL],
      // Listed, not `*/*`: only these bodies are not text.
      binaryMediaTypes: ['multipart/form-data'],
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
    this.#addMethods(routes, functionOf);
    this.#addGatewayErrors(stage);
    this.#acknowledge();
  }

  #addMethods(routes: readonly Route[], functionOf: (fn: FunctionName) => IFunction): void {
    const integrations = new Map(
      FUNCTION_NAMES.map((fn) => {
        const isStream = routes.some((route) => route.fn === fn && route.stream);
        const integration = new LambdaIntegration(functionOf(fn), {
          // One permission per function instead of two per method: the API stays far below 500 resources.
          scopePermissionToMethod: false,
          responseTransferMode: isStream ? ResponseTransferMode.STREAM : ResponseTransferMode.BUFFERED,
          timeout: isStream ? STREAM_TIMEOUT : BUFFERED_TIMEOUT,
        });
        return [fn, integration];
      }),
    );
    const authorizationType = AuthorizationType.NONE;
    for (const { path, method, fn, operationId: operationName } of routes) {
      const resource = this.restApi.root.resourceForPath(path);
      resource.addMethod(method, integrations.get(fn), { operationName, authorizationType });
    }
    for (const path of new Set(routes.map((route) => route.path))) {
      this.restApi.root.resourceForPath(path).addMethod('ANY', integrations.get('meta'), { authorizationType });
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

  #addGatewayErrors(stage: Stage): void {
    for (const [type, { code, waitSeconds }] of Object.entries(GATEWAY_ERRORS)) {
      this.restApi.addGatewayResponse(type, {
        type: ResponseType.of(type),
        statusCode: String(httpStatusOf(code)),
        responseHeaders: {
          ...CORS,
          ...(waitSeconds !== undefined && { 'Retry-After': `'${waitSeconds}'` }),
          ...(type === 'THROTTLED' && throttled(stage)),
        },
        templates: { 'application/json': gatewayErrorBody(type, '$context.requestId') },
      });
    }
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
