import { RemovalPolicy } from 'aws-cdk-lib';
import {
  FlowLogDestination,
  FlowLogTrafficType,
  GatewayVpcEndpointAwsService,
  IpAddresses,
  Peer,
  Port,
  SecurityGroup,
  SubnetType,
  Vpc,
} from 'aws-cdk-lib/aws-ec2';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import type { Stage } from '../config.ts';

/** What every task listens on. */
const TASK_PORT = 8080;

/**
 * The network of the sandboxes, with nothing else in it: security groups forbid nothing by name, so that what is not
 * here is what a program cannot reach. Without NAT: tasks have public addresses, at which nothing is let in, and the
 * function that speaks to them has no way out but to them, to DynamoDB and to S3.
 */
export class SandboxNetwork extends Construct {
  readonly vpc: Vpc;
  readonly taskGroup: SecurityGroup;
  readonly dispatchGroup: SecurityGroup;

  constructor(scope: Construct, id: string, { stage }: { readonly stage: Stage }) {
    super(scope, id);
    this.vpc = new Vpc(this, 'vpc', {
      ipAddresses: IpAddresses.cidr('10.64.0.0/20'),
      maxAzs: 2,
      natGateways: 0,
      subnetConfiguration: [
        { name: 'tasks', subnetType: SubnetType.PUBLIC, cidrMask: 23, mapPublicIpOnLaunch: false },
        { name: 'dispatch', subnetType: SubnetType.PRIVATE_ISOLATED, cidrMask: 25 },
      ],
      // It would take a function of its own to close the default group, which nothing here is in.
      restrictDefaultSecurityGroup: false,
      gatewayEndpoints: {
        s3: { service: GatewayVpcEndpointAwsService.S3 },
        dynamodb: {
          service: GatewayVpcEndpointAwsService.DYNAMODB,
          subnets: [{ subnetType: SubnetType.PRIVATE_ISOLATED }],
        },
      },
    });
    // What was let through is most of it, and paid by the gigabyte; what was refused is what an attack looks like.
    this.vpc.addFlowLog('refused', {
      trafficType: FlowLogTrafficType.REJECT,
      destination: FlowLogDestination.toCloudWatchLogs(
        new LogGroup(this, 'flow-log', {
          logGroupName: `/platform/${stage.name}/sandbox-network`,
          retention: stage.logRetentionDays,
          removalPolicy: stage.keepsData ? RemovalPolicy.RETAIN : RemovalPolicy.DESTROY,
        }),
      ),
    });

    this.taskGroup = new SecurityGroup(this, 'tasks', {
      vpc: this.vpc,
      description: 'Sandboxes: in from the dispatcher only, out by HTTPS only',
      allowAllOutbound: false,
    });
    this.dispatchGroup = new SecurityGroup(this, 'dispatch', {
      vpc: this.vpc,
      description: 'The function that speaks to sandboxes',
      allowAllOutbound: false,
    });
    this.taskGroup.addIngressRule(this.dispatchGroup, Port.tcp(TASK_PORT), 'jobs');
    this.taskGroup.addEgressRule(Peer.anyIpv4(), Port.tcp(443), 'HTTPS, the image and its log included');
    this.dispatchGroup.addEgressRule(this.taskGroup, Port.tcp(TASK_PORT), 'jobs');
    // Its subnets have a route to these two services and to no other address past the network.
    this.dispatchGroup.addEgressRule(Peer.anyIpv4(), Port.tcp(443), 'DynamoDB and S3 by their endpoints');
  }
}
