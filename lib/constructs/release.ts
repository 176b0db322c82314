import { join } from 'node:path';
import { Aws, CustomResource, Duration } from 'aws-cdk-lib';
import type { SpecRestApi } from 'aws-cdk-lib/aws-apigateway';
import {
  Alarm,
  type AlarmProps,
  ComparisonOperator,
  MathExpression,
  Metric,
  Stats,
  TreatMissingData,
} from 'aws-cdk-lib/aws-cloudwatch';
import { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { FilterPattern, type LogGroup, MetricFilter } from 'aws-cdk-lib/aws-logs';
import { Construct, type IConstruct } from 'constructs';
import { type CanarySettings, metricNamespaceOf, platformNameOf, type Stage } from '../config.ts';
import { PlatformFunction } from './platform-function.ts';

/** Lambda's time limit, which exceeds the longest canary. */
const LIMIT = Duration.minutes(15);
/** Shortest period of AWS's own metrics. */
const PERIOD = Duration.minutes(1);
/** Same threshold as the alarm `api-5xx`. */
const MAX_FAULTS = 0.05;

export interface ReleaseProps {
  readonly stage: Stage;
  readonly settings: CanarySettings;
  readonly restApi: SpecRestApi;
  /** New stage variables: the version of each function. */
  readonly variables: Readonly<Record<string, string>>;
  readonly accessLog: LogGroup;
  /** Functions that stream their responses. A broken stream does not show in the status. */
  readonly streaming: readonly { readonly functionName: string; readonly version: string }[];
  /** Constructs that must exist before the API can call the versions. */
  readonly callable: readonly IConstruct[];
  /** Folder with one bundle per function. */
  readonly bundles: string;
}

/**
 * Runs a canary release before the stage of the API is updated: part of the requests goes to the new versions of all
 * functions for a while (`aws/release/release.ts`). An alarm fails the stack's update, and CloudFormation rolls it back
 * without having changed the stage.
 */
export class Release extends Construct {
  constructor(scope: Construct, id: string, props: ReleaseProps) {
    super(scope, id);
    const { stage, settings, restApi, variables } = props;
    const alarms = [this.#watchFaults(props), this.#watchErrors(props)];
    const fn = new PlatformFunction(this, 'release', {
      stage,
      bundle: join(props.bundles, 'release'),
      memoryMb: 256,
      timeoutSeconds: LIMIT.toSeconds(),
      environment: {},
    });
    const { PARTITION, REGION, URL_SUFFIX } = Aws;
    fn.lambda.addToRolePolicy(
      new PolicyStatement({
        actions: ['apigateway:GET', 'apigateway:PATCH'],
        resources: [`arn:${PARTITION}:apigateway:${REGION}::/restapis/${restApi.restApiId}/stages/${stage.name}`],
      }),
    );
    fn.lambda.addToRolePolicy(
      new PolicyStatement({
        actions: ['cloudwatch:DescribeAlarms', 'cloudwatch:SetAlarmState'],
        resources: alarms.map(({ alarmArn }) => alarmArn),
      }),
    );
    const resource = new CustomResource(this, 'Resource', {
      resourceType: 'Custom::Release',
      serviceToken: fn.lambda.functionArn,
      serviceTimeout: LIMIT,
      properties: {
        ApiGatewayUrl: `https://apigateway.${REGION}.${URL_SUFFIX}`,
        CloudWatchUrl: `https://monitoring.${REGION}.${URL_SUFFIX}`,
        Region: REGION,
        RestApiId: restApi.restApiId,
        StageName: stage.name,
        DeploymentId: restApi.latestDeployment!.deploymentId,
        Variables: variables,
        Percent: String(settings.percent),
        Seconds: String(settings.minutes * 60),
        Alarms: alarms.map(({ alarmName }) => alarmName),
      },
    });
    resource.node.addDependency(
      fn,
      ...props.callable,
      ...this.node.children.filter((child) => child instanceof MetricFilter),
    );
    restApi.deploymentStage.node.addDependency(resource);
  }

  /** Alarm on the share of canary requests with a 5xx status, extracted from the access log as 1 or 0 each. */
  #watchFaults({ stage, accessLog }: ReleaseProps): Alarm {
    const isCanary = FilterPattern.stringValue('$.canary', '=', 'true');
    const count = (id: string, comparison: '=' | '!=', metricValue: string) =>
      new MetricFilter(this, id, {
        logGroup: accessLog,
        metricNamespace: metricNamespaceOf(stage),
        metricName: 'CanaryFaults',
        filterPattern: FilterPattern.all(isCanary, FilterPattern.stringValue('$.status', comparison, '5*')),
        metricValue,
      }).metric({ statistic: Stats.AVERAGE, period: PERIOD });
    count('Answers', '!=', '0');
    return this.#alarm(stage, 'faults', {
      alarmDescription: 'New versions that are being tried answered more than 5% of their requests with a 5xx status.',
      metric: count('Faults', '=', '1'),
      threshold: MAX_FAULTS,
    });
  }

  #watchErrors({ stage, streaming }: ReleaseProps): Alarm {
    const errors = streaming.map(({ functionName, version }, index) => {
      const dimensionsMap = { FunctionName: functionName, Resource: `${functionName}:${version}` };
      const metric = { namespace: 'AWS/Lambda', metricName: 'Errors', dimensionsMap, statistic: Stats.SUM };
      return [`errors${index}`, new Metric({ ...metric, period: PERIOD })] as const;
    });
    return this.#alarm(stage, 'errors', {
      alarmDescription: 'New versions that are being tried ended with an error, ran out of memory or timed out.',
      metric: new MathExpression({
        expression: 'SUM(METRICS())',
        usingMetrics: Object.fromEntries(errors),
        period: PERIOD,
      }),
      threshold: 0,
    });
  }

  #alarm(stage: Stage, name: string, props: Pick<AlarmProps, 'alarmDescription' | 'metric' | 'threshold'>): Alarm {
    return new Alarm(this, name, {
      ...props,
      alarmName: `${platformNameOf(stage)}-release-${name}`,
      alarmDescription: `${props.alarmDescription} What to do: docs/operate.md, "release".`,
      comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
      evaluationPeriods: 1,
      treatMissingData: TreatMissingData.NOT_BREACHING,
    });
  }
}
