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
import { removalPolicyOf } from '../removal.ts';

/** Port of every task. */
const TASK_PORT = 8080;

export interface SandboxNetworkProps {
  readonly stage: Stage;
  /** Availability Zones. @default - two that AWS chooses */
  readonly zones?: readonly string[] | undefined;
}

/**
 * The network of the sandboxes. Nothing else is in it, because security groups cannot deny addresses: programs must find
 * nothing here. It has no NAT: tasks have public addresses that accept no connection, and the function that calls them
 * reaches only tasks, DynamoDB and S3.
 */
export class SandboxNetwork extends Construct {
  readonly vpc: Vpc;
  readonly taskGroup: SecurityGroup;
  readonly dispatchGroup: SecurityGroup;

  constructor(scope: Construct, id: string, { stage, zones }: SandboxNetworkProps) {
    super(scope, id);
    this.vpc = new Vpc(this, 'vpc', {
      ipAddresses: IpAddresses.cidr('10.64.0.0/20'),
      ...(zones ? { availabilityZones: [...zones] } : { maxAzs: 2 }),
      natGateways: 0,
      subnetConfiguration: [
        { name: 'tasks', subnetType: SubnetType.PUBLIC, cidrMask: 23, mapPublicIpOnLaunch: false },
        { name: 'dispatch', subnetType: SubnetType.PRIVATE_ISOLATED, cidrMask: 25 },
      ],
      // Nothing is in the default group, and closing it would take another function.
      restrictDefaultSecurityGroup: false,
      gatewayEndpoints: {
        s3: { service: GatewayVpcEndpointAwsService.S3 },
        dynamodb: {
          service: GatewayVpcEndpointAwsService.DYNAMODB,
          subnets: [{ subnetType: SubnetType.PRIVATE_ISOLATED }],
        },
      },
    });
    // Accepted traffic is most of the volume, which costs by the gigabyte; attacks show in rejected traffic.
    const flowLog = this.vpc.addFlowLog('refused', {
      trafficType: FlowLogTrafficType.REJECT,
      destination: FlowLogDestination.toCloudWatchLogs(
        new LogGroup(this, 'flow-log', {
          logGroupName: `/platform/${stage.name}/sandbox-network`,
          retention: stage.logRetentionDays,
          removalPolicy: removalPolicyOf(stage),
        }),
      ),
    });
    // It needs the rights of its role, not only the role.
    flowLog.node.defaultChild!.node.addDependency(flowLog.iamRole!);

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
    // Outside the network, its subnets have routes to these two services only.
    this.dispatchGroup.addEgressRule(Peer.anyIpv4(), Port.tcp(443), 'DynamoDB and S3 by their endpoints');
  }
}
