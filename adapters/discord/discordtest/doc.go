// Package discordtest is a local server that speaks Discord's gateway and REST API as far as mikan uses them, as
// strictly as the platform: what is not in the table below is refused, and what Discord would refuse is refused with
// Discord's own status and error code. Everything a person would see can be listed, everything a person would do can be
// done, and faults can be put into any call.
//
// REST, below /api/v9 or /api/v10 (paths of https://discord.com/developers/docs):
//
//	call                                          checked here                                      errors                            limit             page
//	GET    /gateway                               -                                                 -                                 -                 topics/gateway#get-gateway
//	GET    /gateway/bot                           -                                                 -                                 2/5s              topics/gateway#get-gateway-bot
//	GET    /users/@me                             bot token                                         401                               global            resources/user#get-current-user
//	GET    /users/@me/guilds                      bot token                                         401                               1/s               resources/user#get-current-user-guilds
//	POST   /users/@me/channels                    recipient_id of somebody who shares a guild       400 50007 on posting              10/10s            resources/user#create-dm
//	GET    /applications/@me                      flags tell the privileged intents                 401                               global            resources/application#get-current-application
//	GET    /channels/{c}                          visible to the bot                                404 10003, 403 50001              50/s              resources/channel#get-channel
//	GET    /channels/{c}/messages                 limit 1–100, one of after, before, around; newest 404 10003, 403 50001, 400 50035   5/5s a channel    resources/message#get-channel-messages
//	                                              first; no nonce in what it returns
//	GET    /channels/{c}/messages/{m}             -                                                 404 10008                         5/5s a channel    resources/message#get-channel-message
//	POST   /channels/{c}/messages                 content ≤ 2,000 characters, not empty; nonce ≤ 25 50035, 50006, 50001, 50013,       5/5s a channel    resources/message#create-message
//	                                              and unique for some minutes with enforce_nonce;   50083, 160002, 40005
//	                                              allowed_mentions; message_reference; files[n]
//	PATCH  /channels/{c}/messages/{m}             own message; as above                             50005, 10008                      5/5s a channel    resources/message#edit-message
//	DELETE /channels/{c}/messages/{m}             own message, as the bot may not manage others'    50003, 10008                      5/1s a channel    resources/message#delete-message
//	PUT, DELETE …/reactions/{emoji}/@me           a known emoji, URL-encoded                        10014, 10008                      1/0.25s a channel resources/message#create-reaction
//	POST   /channels/{c}/typing                   -                                                 10003                             5/5s a channel    resources/channel#trigger-typing-indicator
//	GET    /guilds/{g}/members/{u}                -                                                 404 10007, 10004                  5/1s              resources/guild#get-guild-member
//	GET, PUT, POST /applications/{a}/commands     names, descriptions, options within their limits; 50035; a bulk overwrite is all    10/s              interactions/application-commands
//	                                              at most 100                                       or nothing
//	POST   /interactions/{i}/{token}/callback     types 4 and 5, once, within 3 s                   404 10062, 400 40060              none              interactions/receiving-and-responding
//	POST   /webhooks/{a}/{token}                  15 minutes                                        401 50027                         5/2s              interactions/receiving-and-responding#followup-messages
//	GET, PATCH, DELETE /webhooks/{a}/{token}/messages/{m or @original}                              10008, 50027                      5/2s              resources/webhook#edit-webhook-message
//
// Attachments are served by a second host, as by cdn.discordapp.com: signed URLs that expire, and no token is ever due
// there.
//
// The gateway (topics/gateway) takes version 9 or 10 with JSON, one shard. It sends hello, wants identify or resume,
// checks token and intents (4004, 4013, 4014), compresses when asked, acknowledges heartbeats, replays on resume, and
// closes with 4001–4009 for what it does not understand. Message content is withheld without its intent.
package discordtest
