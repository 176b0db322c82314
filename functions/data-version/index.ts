import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { takeDataVersion } from '#aws/tables/data-version.ts';
import { customResource } from '../custom-resource.ts';
import { host } from '../host.ts';

const client = new DynamoDBClient();
const take = () => takeDataVersion(client, host.config.tablePrefix);

/** Refuses to deploy functions for data that they do not take. */
export const handler = customResource({ onCreate: take, onUpdate: take });
