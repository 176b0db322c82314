import { request } from './workspace.js';

/**
 * Sends a message to the people of the workspace.
 *
 * @param {string} title
 * @param {string} body
 * @param {{
 *   level?: 'info' | 'success' | 'warning' | 'error',
 *   agentName?: string,
 *   metadata?: Record<string, unknown>,
 * }} [options] Defaults: `level` info, `agentName` the running agent's.
 * @returns {Promise<{ id: string, agent_name: string | null, title: string, level: string, created_at: string }>}
 */
export const send = (title, body, { level = 'info', agentName, metadata } = {}) =>
  request('POST', ['messages'], { body: { title, body, level, agent_name: agentName, metadata } });
