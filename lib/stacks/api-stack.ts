import { join } from 'node:path';
import { Aws, CfnOutput, Duration, Fn, Stack, type StackProps } from 'aws-cdk-lib';
import {
  DomainName,
  EndpointType,
  type IRestApi,
  type MTLSConfig,
  SecurityPolicy,
  type SpecRestApi,
} from 'aws-cdk-lib/aws-apigateway';
import { Certificate } from 'aws-cdk-lib/aws-certificatemanager';
import { Rule, Schedule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction as LambdaTarget } from 'aws-cdk-lib/aws-events-targets';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import type { LogGroup } from 'aws-cdk-lib/aws-logs';
import { ApiGatewayDomain } from 'aws-cdk-lib/aws-route53-targets';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';
import { type BackgroundFunctionName, backgroundFunction } from '#core/api/background.ts';
import { FUNCTION_NAMES, type FunctionName, type Route } from '#core/http/route.ts';
import { apiUrlOf } from '../api-url.ts';
import { apiExportOf, frontTokenExportOf, type Stage, type WebSettings } from '../config.ts';
import { CALL_SERVER, CallServer } from '../constructs/call-server.ts';
import { CompileCacheMaker, useCompileCache } from '../constructs/compile-cache.ts';
import { DataVersionCheck } from '../constructs/data-version-check.ts';
import { addDomainRecord } from '../constructs/domain-record.ts';
import { Firewall } from '../constructs/firewall.ts';
import type { PlatformFunction } from '../constructs/platform-function.ts';
import { type CallServerTarget, RouteApi } from '../constructs/route-api.ts';
import { addSpecifiedFunction } from '../constructs/specified-function.ts';
import { API_STACK_FUNCTIONS } from '../functions.ts';

export interface ApiStackProps extends StackProps {
  readonly stage: Stage;
  readonly routes: readonly Route[];
  /** Folder with one bundle per function, built by scripts/build-functions.ts. */
  readonly bundles: string;
  /** Command that creates the first key. */
  readonly firstKey: string;
}

/**
 * The HTTP API: API Gateway, and one Lambda function per `fn` of the route table and the background table, except those
 * that need the services stack.
 */
export class ApiStack extends Stack {
  readonly restApi: SpecRestApi;
  /** Present if the stage has a domain for its API. */
  readonly domain?: DomainName;
  readonly accessLog: LogGroup;
  readonly functions: Readonly<Partial<Record<FunctionName | BackgroundFunctionName, LambdaFunction>>>;

  constructor(scope: Construct, id: string, props: ApiStackProps) {
    super(scope, id, props);
    const { stage, routes } = props;
    const dataVersion = new DataVersionCheck(this, 'data-version-check', props);
    const maker = new CompileCacheMaker(this, 'compile-cache-maker', props);
    const addFunction = (fn: FunctionName | BackgroundFunctionName) => {
      const added = addSpecifiedFunction(this, fn, props);
      useCompileCache(added, stage).node.addDependency(maker);
      added.lambda.node.addDependency(dataVersion);
      return added;
    };
    const added = new Map(FUNCTION_NAMES.map((fn) => [fn, addFunction(fn)]));
    const functions = new Map([...added].map(([fn, { lambda }]) => [fn, lambda]));
    // The stack id is unknown outside the account.
    const frontToken = Fn.select(2, Fn.split('/', Aws.STACK_ID));
    const callServer = stage.calls === 'web' ? this.#addCallServer(added.get('calls')!, props, frontToken) : undefined;
    callServer?.server.node.addDependency(dataVersion);
    const { restApi, accessLog } = new RouteApi(this, 'api', {
      stage,
      routes,
      functions,
      callServer,
      bundles: props.bundles,
    });
    this.restApi = restApi;
    this.accessLog = accessLog;
    // `restApi.url` would depend on the deployment, which depends on the functions.
    const apiUrl = apiUrlOf(stage, restApi.restApiId);
    // CloudFront's own name is created after this stack: requests through it carry the name (`functions/lambda.ts`).
    const siteUrl = stage.baseUrl ?? (stage.web.kind === 'off' ? undefined : domainUrl(stage.web));
    const addresses = {
      PLATFORM_BASE_URL: siteUrl ?? apiUrl,
      ...(stage.web.kind !== 'off' && {
        PLATFORM_CALL_URL: apiUrl,
        PLATFORM_FRONT_TOKEN: frontToken,
        ...(siteUrl !== undefined && { PLATFORM_DASHBOARD_URL: `${siteUrl}/dashboard` }),
      }),
    };
    const setAddresses = (lambda: LambdaFunction) => {
      for (const [name, value] of Object.entries(addresses)) lambda.addEnvironment(name, value);
    };
    if (stage.domain) this.domain = this.#addDomain(restApi, stage.domain);
    if (stage.firewall) {
      const { deploymentStage: apiStage } = restApi;
      new Firewall(this, 'firewall', {
        stage,
        ...stage.firewall,
        apiStage,
        frontToken: stage.web.kind === 'off' ? undefined : frontToken,
      });
    }
    const backgrounds = new Map<BackgroundFunctionName, LambdaFunction>();
    for (const name of API_STACK_FUNCTIONS) {
      const { everyMinutes, about } = backgroundFunction(name);
      const background = addFunction(name);
      // Background functions and their permissions change after the stage has switched: a rolled back release leaves
      // them unchanged.
      background.node.addDependency(restApi.deploymentStage);
      const { lambda } = background;
      backgrounds.set(name, lambda);
      setAddresses(lambda);
      if (everyMinutes === undefined) {
        // The caller or the queue retries, so Lambda must not.
        lambda.configureAsyncInvoke({ retryAttempts: 0 });
        continue;
      }
      new Rule(this, `${name}-clock`, {
        description: about,
        schedule: Schedule.rate(Duration.minutes(everyMinutes)),
        // The next tick makes up for a missed one.
        targets: [new LambdaTarget(lambda, { retryAttempts: 0 })],
      });
    }
    for (const lambda of functions.values()) setAddresses(lambda);
    this.functions = Object.fromEntries([...functions, ...backgrounds]);
    // CloudFront closes connections that are idle for a minute, as a call may be.
    new CfnOutput(this, 'BaseUrl', { value: apiUrl });
    new CfnOutput(this, 'ApiId', { value: restApi.restApiId, exportName: apiExportOf(stage) });
    new CfnOutput(this, 'FrontToken', { value: frontToken, exportName: frontTokenExportOf(stage) });
    new CfnOutput(this, 'FirstKey', {
      description: "Creates the first workspace and prints its owner's API key, once.",
      value: `AWS_REGION=${this.region} ${props.firstKey}`,
    });
  }

  /** Clients know neither of the two tokens, which have headers of their own. */
  #addCallServer(calls: PlatformFunction, { stage, bundles }: ApiStackProps, gatewayToken: string): CallServerTarget {
    const bundle = join(bundles, CALL_SERVER);
    return { server: new CallServer(this, CALL_SERVER, { stage, calls, bundle, gatewayToken }), gatewayToken };
  }

  #addDomain(
    restApi: IRestApi,
    { name, certificateArn, hostedZoneId, mtls }: NonNullable<Stage['domain']>,
  ): DomainName {
    const domain = new DomainName(this, 'domain', {
      domainName: name,
      certificate: Certificate.fromCertificateArn(this, 'certificate', certificateArn),
      endpointType: EndpointType.REGIONAL,
      securityPolicy: SecurityPolicy.TLS_1_2,
      mtls: mtls && this.#truststore(mtls),
    });
    domain.addBasePathMapping(restApi);
    if (hostedZoneId) addDomainRecord(domain, { name, hostedZoneId }, new ApiGatewayDomain(domain));
    new CfnOutput(this, 'DomainTarget', {
      description: `Target of the alias or CNAME record of ${name}.`,
      value: domain.domainNameAliasDomainName,
    });
    return domain;
  }

  #truststore({ truststore, version }: NonNullable<NonNullable<Stage['domain']>['mtls']>): MTLSConfig {
    const [, bucketName, key] = /^s3:\/\/([^/]+)\/(.+)$/.exec(truststore)!;
    return { bucket: Bucket.fromBucketName(this, 'truststore', bucketName!), key: key!, version };
  }
}

const domainUrl = ({ domain }: WebSettings): string | undefined => domain && `https://${domain.name}`;
