import { request } from './workspace.js';

/**
 * @typedef {object} Task
 * @property {string} id
 * @property {string} title
 * @property {string | null} description
 * @property {'open' | 'in_progress' | 'done' | 'cancelled'} status
 * @property {'low' | 'normal' | 'high' | 'urgent'} priority
 * @property {string | null} due_date YYYY-MM-DD
 * @property {string | null} project
 * @property {string | null} created_by
 * @property {string} created_at
 * @property {string | null} completed_at
 */

/** @typedef {Partial<Pick<Task, 'title' | 'description' | 'status' | 'priority' | 'due_date' | 'project'>>} TaskMembers */

/**
 * @param {TaskMembers & { title: string }} members
 * @returns {Promise<Task>}
 */
export const create = (members) => request('POST', ['tasks'], { body: members });

/**
 * One page of tasks: `limit` is 50 by default, at most 200. `overdue`: only open ones whose due date has passed.
 *
 * @param {{
 *   limit?: number,
 *   offset?: number,
 *   status?: Task['status'],
 *   project?: string,
 *   priority?: Task['priority'],
 *   overdue?: boolean,
 * }} [query]
 * @returns {Promise<Task[]>}
 */
export const list = async (query) => (await request('GET', ['tasks'], { query })).tasks;

/**
 * @param {string} id
 * @returns {Promise<Task>}
 */
export const get = (id) => request('GET', ['tasks', id]);

/**
 * @param {string} id
 * @param {TaskMembers} members
 * @returns {Promise<Task>}
 */
export const update = (id, members) => request('PATCH', ['tasks', id], { body: members });

/**
 * @param {string} id
 * @returns {Promise<Task>}
 */
export const complete = (id) => update(id, { status: 'done' });

/**
 * @param {string} id
 * @returns {Promise<void>}
 */
const remove = async (id) => void (await request('DELETE', ['tasks', id]));

export { remove as delete };
