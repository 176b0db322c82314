import { join } from 'node:path';
import { CfnOutput, Duration, Stack, type StackProps } from 'aws-cdk-lib';
import { DomainName, EndpointType, type RestApi, SecurityPolicy } from 'aws-cdk-lib/aws-apigateway';
import { Certificate } from 'aws-cdk-lib/aws-certificatemanager';
import { Rule, Schedule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction as LambdaTarget } from 'aws-cdk-lib/aws-events-targets';
import type { Construct } from 'constructs';
import { BACKGROUND_FUNCTIONS, type BackgroundFunctionName, backgroundFunction } from '#core/api/background.ts';
import { transportsSchema } from '#core/base/transports.ts';
import { FUNCTION_NAMES, type FunctionName, type Route } from '#core/http/route.ts';
import type { TableName } from '#core/ports/table-rules.ts';
import type { Stage } from '../config.ts';
import { Firewall } from '../constructs/firewall.ts';
import { PlatformFunction } from '../constructs/platform-function.ts';
import { RouteApi } from '../constructs/route-api.ts';
import { FUNCTIONS, MAX_BODY_MB, type TableAccess } from '../functions.ts';

export interface ApiStackProps extends StackProps {
  readonly stage: Stage;
  readonly routes: readonly Route[];
  /** Folder with one bundle per function, built by scripts/build-functions.ts. */
  readonly bundles: string;
}

/** The HTTP API: API Gateway, and one Lambda function per `fn` of the route table and the background table. */
export class ApiStack extends Stack {
  constructor(scope: Construct, id: string, props: ApiStackProps) {
    super(scope, id, props);
    const { stage, routes } = props;
    const functions = new Map(FUNCTION_NAMES.map((fn) => [fn, this.#addFunction(fn, props)]));
    const { restApi } = new RouteApi(this, 'api', { stage, routes, functionOf: (fn) => functions.get(fn)!.lambda });
    // Not `restApi.url`: it depends on the deployment, which depends on the functions.
    const baseUrl =
      stage.baseUrl ??
      (stage.domain && `https://${stage.domain.name}`) ??
      `https://${restApi.restApiId}.execute-api.${this.region}.${this.urlSuffix}/${stage.name}`;
    if (stage.domain) this.#addDomain(restApi, stage.domain);
    if (stage.firewall) new Firewall(this, 'firewall', { stage, ...stage.firewall, apiStage: restApi.deploymentStage });
    for (const name of BACKGROUND_FUNCTIONS) {
      const { everyMinutes, about } = backgroundFunction(name);
      const { lambda } = this.#addFunction(name, props);
      lambda.addEnvironment('PLATFORM_BASE_URL', baseUrl);
      if (everyMinutes === undefined) {
        // Its caller or its queue retries; Lambda must not retry as well.
        lambda.configureAsyncInvoke({ retryAttempts: 0 });
        continue;
      }
      new Rule(this, `${name}-clock`, {
        description: about,
        schedule: Schedule.rate(Duration.minutes(everyMinutes)),
        // The next tick does what this one missed.
        targets: [new LambdaTarget(lambda, { retryAttempts: 0 })],
      });
    }
    for (const { lambda } of functions.values()) lambda.addEnvironment('PLATFORM_BASE_URL', baseUrl);
    new CfnOutput(this, 'BaseUrl', { value: baseUrl });
    new CfnOutput(this, 'FirstKey', {
      description: "Creates the first workspace and prints its owner's API key, once.",
      value: `AWS_REGION=${this.region} npm run aws:key -- ${stage.name}`,
    });
  }

  #addDomain(restApi: RestApi, { name, certificateArn }: NonNullable<Stage['domain']>): void {
    const domain = new DomainName(this, 'domain', {
      domainName: name,
      certificate: Certificate.fromCertificateArn(this, 'certificate', certificateArn),
      endpointType: EndpointType.REGIONAL,
      securityPolicy: SecurityPolicy.TLS_1_2,
    });
    domain.addBasePathMapping(restApi);
    new CfnOutput(this, 'DomainTarget', {
      description: `Target of the alias or CNAME record of ${name}.`,
      value: domain.domainNameAliasDomainName,
    });
  }

  #addFunction(fn: FunctionName | BackgroundFunctionName, { stage, bundles }: ApiStackProps): PlatformFunction {
    const {
      memoryMb,
      timeoutSeconds,
      tables = {},
      blobs,
      secrets,
      models,
      calls,
      mail,
      payments,
      sandbox,
      timers,
      timerQueue,
    } = FUNCTIONS[fn];
    const platformFunction = new PlatformFunction(this, fn, {
      stage,
      bundle: join(bundles, fn),
      memoryMb,
      timeoutSeconds,
      environment: {
        PLATFORM_MAX_DIRECT_BODY_MB: String(MAX_BODY_MB),
        PLATFORM_RUN_RETENTION_DAYS: String(stage.runRetentionDays),
        ...stage.settings,
      },
    });
    for (const [name, access] of Object.entries(tables))
      platformFunction.useTable(name as TableName, access as TableAccess);
    if (blobs) platformFunction.useBlobs(blobs);
    if (secrets) platformFunction.useSecrets(secrets);
    if (models) {
      const { PLATFORM_MODELS: table, PLATFORM_TRANSPORTS: transports } = stage.settings;
      if (table) platformFunction.useModels(table);
      if (transports) platformFunction.useTransports(transportsSchema().parse(transports));
    }
    if (mail && stage.mailFrom) platformFunction.useMail(stage.mailFrom);
    if (payments && stage.stripe) platformFunction.usePayments(stage.stripe.secretName);
    if (calls) platformFunction.useFunctions(calls);
    if (sandbox) platformFunction.useSandbox(stage.sandbox, sandbox);
    if (timers) platformFunction.useTimers(timers);
    if (timerQueue) platformFunction.readTimerQueue(timerQueue);
    return platformFunction;
  }
}
