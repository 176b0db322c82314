import { Fn } from 'aws-cdk-lib';
import { CfnWebACL, CfnWebACLAssociation } from 'aws-cdk-lib/aws-wafv2';
import { Construct } from 'constructs';
import type { Stage } from '../config.ts';

export interface FirewallProps {
  readonly stage: Stage;
  readonly requestsPerFiveMinutes: number;
  /** What it stands before. */
  readonly restApiId: string;
}

/**
 * A web ACL before the stage of a REST API: it refuses addresses that send too much, or that are known for attacks.
 * None of its rules looks into bodies: agents are sent any text.
 */
export class Firewall extends Construct {
  constructor(scope: Construct, id: string, { stage, requestsPerFiveMinutes, restApiId }: FirewallProps) {
    super(scope, id);
    const visibility = (metricName: string) => ({
      metricName: `platform-${stage.name}-${metricName}`,
      cloudWatchMetricsEnabled: true,
      sampledRequestsEnabled: false,
    });
    const acl = new CfnWebACL(this, 'Acl', {
      name: `platform-${stage.name}`,
      scope: 'REGIONAL',
      defaultAction: { allow: {} },
      visibilityConfig: visibility('firewall'),
      // WAF's own answer has no envelope.
      customResponseBodies: { refused: { contentType: 'APPLICATION_JSON', content: REFUSED } },
      rules: [
        {
          name: 'too-many-requests',
          priority: 0,
          action: { block: { customResponse: { responseCode: 429, customResponseBodyKey: 'refused' } } },
          statement: {
            rateBasedStatement: { limit: requestsPerFiveMinutes, evaluationWindowSec: 300, aggregateKeyType: 'IP' },
          },
          visibilityConfig: visibility('too-many-requests'),
        },
        {
          name: 'bad-addresses',
          priority: 1,
          overrideAction: { none: {} },
          statement: {
            managedRuleGroupStatement: { vendorName: 'AWS', name: 'AWSManagedRulesAmazonIpReputationList' },
          },
          visibilityConfig: visibility('bad-addresses'),
        },
      ],
    });
    new CfnWebACLAssociation(this, 'Association', {
      webAclArn: acl.attrArn,
      resourceArn: Fn.sub(`arn:\${AWS::Partition}:apigateway:\${AWS::Region}::/restapis/\${api}/stages/${stage.name}`, {
        api: restApiId,
      }),
    });
  }
}

/** WAF knows no request id that it could write into a body. */
const REFUSED = JSON.stringify({
  error: {
    code: 'RATE_LIMITED',
    message: 'Too many requests come from your address: wait five minutes and try again.',
    is_retryable: true,
    suggested_wait_time: 300,
  },
  metadata: {},
});
