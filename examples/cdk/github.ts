import { App, Aws, Stack } from 'aws-cdk-lib';
import { OidcProviderNative, PolicyDocument, PolicyStatement, Role, WebIdentityPrincipal } from 'aws-cdk-lib/aws-iam';

const REPOSITORY = 'acme/agents-in-our-account';
/** GitHub environment, whose rules decide who may deploy and from which branch. */
const ENVIRONMENT = 'prod';
const HOST = 'token.actions.githubusercontent.com';

// Deployed once manually. Afterwards .github/workflows/deploy.yml deploys without an AWS key in GitHub.
const stack = new Stack(new App(), 'agents-github', { env: { account: '111122223333', region: 'eu-west-1' } });
const provider = new OidcProviderNative(stack, 'github', { url: `https://${HOST}`, clientIds: ['sts.amazonaws.com'] });
const conditions = {
  StringEquals: {
    [`${HOST}:aud`]: 'sts.amazonaws.com',
    [`${HOST}:sub`]: `repo:${REPOSITORY}:environment:${ENVIRONMENT}`,
  },
};
new Role(stack, 'deploy', {
  roleName: 'agents-deploy',
  assumedBy: new WebIdentityPrincipal(provider.oidcProviderArn, conditions),
  inlinePolicies: {
    // The roles of `cdk bootstrap` have the permissions for a deployment; this role may only assume them.
    cdk: new PolicyDocument({
      statements: [
        new PolicyStatement({
          actions: ['sts:AssumeRole'],
          resources: [`arn:${Aws.PARTITION}:iam::${Aws.ACCOUNT_ID}:role/cdk-hnb659fds-*`],
        }),
      ],
    }),
  },
});
