import { App, Stack, Stage } from 'aws-cdk-lib';
import { BackupPlan, BackupResource } from 'aws-cdk-lib/aws-backup';
import { Dashboard, GraphWidget } from 'aws-cdk-lib/aws-cloudwatch';
import { CfnVPCPeeringConnection } from 'aws-cdk-lib/aws-ec2';
import { AccountPrincipal, Role } from 'aws-cdk-lib/aws-iam';
import { Code, Function as LambdaFunction, Runtime } from 'aws-cdk-lib/aws-lambda';
import { FilterPattern } from 'aws-cdk-lib/aws-logs';
import { ARecord, HostedZone, RecordTarget } from 'aws-cdk-lib/aws-route53';
import { EmailSubscription } from 'aws-cdk-lib/aws-sns-subscriptions';
import { CfnWebACLAssociation } from 'aws-cdk-lib/aws-wafv2';
import { expect, test } from 'vitest';
import { TABLE_NAMES } from '#core/ports/table-rules.ts';
import { AgentPlatform, type AgentPlatformProps } from '#lib/platform.ts';
import { emptyFolders, type Resource, resourcesOf, type Template } from '#test/helpers/templates.ts';
import cdkJson from '../../cdk.json' with { type: 'json' };
import { stage as dev } from '../../stages/dev.ts';
import { everythingAsked } from './everything-asked.ts';

const ENV = { account: '111122223333', region: 'eu-west-1' };
const { bootstrapQualifier: _, permissionsBoundary: __, ...everything } = everythingAsked;

/** An app with a stack of its own beside the platform. */
function appWith(props: AgentPlatformProps) {
  const app = new Stage(new App({ context: cdkJson.context }), 'acme', { env: ENV });
  const own = new Stack(app, 'own');
  const platform = new AgentPlatform(app, 'agents', props, emptyFolders());
  const templates = () => {
    const assembly = app.synth();
    const of = (stack: Stack): Template => assembly.getStackByName(stack.stackName).template;
    return { own: of(own), of };
  };
  return { own, platform, templates };
}

const propertiesOf = (template: Template, type: string) =>
  resourcesOf(template, type).map(([, { Properties }]: [string, Resource]) => Properties);

test('an app makes records, a web ACL, a dashboard, backups and grants with the handles', { timeout: 120_000 }, () => {
  const { own, platform, templates } = appWith(everything);
  const zone = HostedZone.fromHostedZoneAttributes(own, 'zone', { hostedZoneId: 'Z0', zoneName: 'example.org' });
  const record = (recordName: string, target: RecordTarget) =>
    new ARecord(own, recordName, { zone, recordName, target });
  record('agents', RecordTarget.fromAlias(platform.apiRecordTarget!));
  record('platform', RecordTarget.fromAlias(platform.webRecordTarget!));
  new CfnWebACLAssociation(own, 'balancer-acl', {
    webAclArn: 'arn:aws:wafv2:eu-west-1:111122223333:regional/webacl/mine/0a',
    resourceArn: platform.servicesBalancer!.loadBalancerArn,
  });
  const { calls, 'schedule-fired': fired, 'service-keeper': keeper } = platform.functions;
  new Dashboard(own, 'dashboard', {
    widgets: [
      [
        new GraphWidget({ left: [calls.metricErrors(), fired!.metricErrors(), keeper!.metricErrors()] }),
        new GraphWidget({ left: [platform.tables.main.metricConsumedReadCapacityUnits()] }),
        new GraphWidget({ left: [platform.distribution!.metricRequests()] }),
      ],
    ],
  });
  const reader = new Role(own, 'reader', { assumedBy: new AccountPrincipal(ENV.account) });
  platform.tables.runs.grantReadData(reader);
  platform.bucket.grantRead(reader, 'bundles/*');
  platform.key.grantDecrypt(reader);
  platform.functions.calls.currentVersion.grantInvoke(reader);
  platform.alarmTopic!.addSubscription(new EmailSubscription('second@example.org'));
  platform.accessLog.addMetricFilter('refused', {
    filterPattern: FilterPattern.stringValue('$.status', '=', '403'),
    metricNamespace: 'own',
    metricName: 'refused',
  });
  BackupPlan.dailyMonthly1YearRetention(own, 'backups').addSelection('all', {
    resources: [
      ...Object.values(platform.tables).map((table) => BackupResource.fromDynamoDbTable(table)),
      BackupResource.fromArn(platform.bucket.bucketArn),
    ],
  });

  const { own: template, of } = templates();
  const records = propertiesOf(template, 'AWS::Route53::RecordSet');
  expect(records.map(({ Name, AliasTarget }) => [Name, Object.keys(AliasTarget).sort()])).toEqual([
    ['agents.example.org.', ['DNSName', 'HostedZoneId']],
    ['platform.example.org.', ['DNSName', 'HostedZoneId']],
  ]);
  expect(propertiesOf(template, 'AWS::CloudWatch::Dashboard')).toHaveLength(1);
  const [selection] = propertiesOf(template, 'AWS::Backup::BackupSelection');
  expect(selection.BackupSelection.Resources).toHaveLength(TABLE_NAMES.length + 1);
  const granted = propertiesOf(template, 'AWS::IAM::Policy').flatMap(({ PolicyDocument }) =>
    PolicyDocument.Statement.flatMap(({ Action }: { Action: string | string[] }) => Action),
  );
  expect(granted).toEqual(
    expect.arrayContaining(['dynamodb:GetItem', 's3:GetObject*', 'kms:Decrypt', 'lambda:InvokeFunction']),
  );
  expect(propertiesOf(of(platform.observability), 'AWS::SNS::Subscription')).toHaveLength(2);
});

test('functions of the platform take grants, and its networks connections', { timeout: 120_000 }, () => {
  const { own, platform, templates } = appWith({ ...dev, web: { kind: 'off' } });
  // What the platform's stacks need must not need them in turn.
  const tools = new Stack(own.node.scope!, 'tools');
  const tool = new LambdaFunction(tools, 'tool', {
    runtime: Runtime.NODEJS_24_X,
    handler: 'index.handler',
    code: Code.fromInline('exports.handler = async () => 1'),
  });
  tool.grantInvoke(platform.functions.calls);
  new CfnVPCPeeringConnection(own, 'peering', { vpcId: platform.sandboxVpc!.vpcId, peerVpcId: 'vpc-0a1b2c3d' });
  new CfnVPCPeeringConnection(own, 'services', { vpcId: platform.servicesVpc!.vpcId, peerVpcId: 'vpc-0a1b2c3d' });
  const { own: template, of } = templates();
  expect(propertiesOf(template, 'AWS::EC2::VPCPeeringConnection').map(({ VpcId }) => VpcId)).not.toContain(undefined);
  const policies = JSON.stringify(propertiesOf(of(platform.api), 'AWS::IAM::Policy'));
  expect(policies).toContain('tool');
  expect(platform.servicesGateway).toBeDefined();
  for (const name of [
    'distribution',
    'webRecordTarget',
    'apiRecordTarget',
    'servicesBalancer',
    'alarmTopic',
  ] as const) {
    expect(platform[name], name).toBe(undefined);
  }
});
