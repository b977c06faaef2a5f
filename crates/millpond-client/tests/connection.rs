//! Connecting, asking, losing the connection and taking it up again.

mod peer;

use std::time::Duration;

use millpond_client::{Client, ClientOptions, Code, Error, Event, Message, OutcomeRun, PublishOutcome};
use millpond_client::{MessageId, Millis, Priority, Sequence, TopicNumber};
use millpond_protocol::{Request, Response, encode_response};
use peer::{Peer, bodies, namespace};

fn queued(count: u32, sequence: u64) -> OutcomeRun<PublishOutcome> {
    let id = MessageId { topic: TopicNumber(1), priority: Priority::DEFAULT, sequence: Sequence(sequence) };
    OutcomeRun { count, outcome: PublishOutcome::Queued { id } }
}

fn message(body: &str) -> Message {
    Message::new("topic".try_into().unwrap(), body.to_owned())
}

#[tokio::test]
async fn a_broker_that_is_away_or_none_is_told_apart() {
    let peer = Peer::new().await;
    let address = peer.address();
    drop(peer);
    let away = Client::connect(address.as_str()).await.err().unwrap();
    assert!(matches!(away, Error::Unreachable { .. }) && away.is_passing(), "{away}");
    assert!(away.to_string().contains(&address) && away.to_string().contains("millpond serve"), "{away}");

    let peer = Peer::new().await;
    let stranger = async {
        let mut connection = peer.accept_raw().await;
        connection.write(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        connection.next_or_end().await;
    };
    let (error, ()) = tokio::join!(Client::connect(peer.options()), stranger);
    assert!(matches!(error.err().unwrap(), Error::Protocol { .. }));

    let closing = async {
        let mut connection = peer.accept_raw().await;
        let detail = "speak version 9".to_owned();
        connection.tell(Response::Closing { code: Code::UnsupportedVersion, detail }).await;
        connection
    };
    let (error, _connection) = tokio::join!(Client::connect(peer.options()), closing);
    assert!(matches!(error.err().unwrap(), Error::Refused { code: Code::UnsupportedVersion, .. }));

    let options = ClientOptions { connect_timeout: Duration::from_millis(20), ..peer.options() };
    let silent = Client::connect(options).await.err().unwrap();
    assert!(matches!(silent, Error::Unreachable { .. }), "{silent}");
}

#[tokio::test]
async fn requests_are_pipelined_and_answers_find_their_way_in_any_order_and_in_any_pieces() {
    let peer = Peer::new().await;
    let (client, mut connection) = peer.client().await;
    let (ns, messages) = (namespace(), |range: std::ops::Range<u32>| range.map(|i| message(&i.to_string())).collect());
    let broker = async {
        // Both have to be here before either is answered.
        let (first, second) = (connection.next().await, connection.next().await);
        let mut out = Vec::new();
        for incoming in [second, first] {
            let Request::Publish(publish) = incoming.frame else { panic!("no publish") };
            let bodies = bodies(&publish);
            let sequence = bodies[0].parse::<u64>().unwrap();
            encode_response(
                &Response::Published(vec![queued(bodies.len() as u32, sequence)]),
                incoming.correlation,
                &mut out,
            );
        }
        for byte in out {
            connection.write(&[byte]).await;
        }
    };
    let (a, b, ()) =
        tokio::join!(client.publish_many(&ns, messages(0..3)), client.publish_many(&ns, messages(3..5)), broker);
    let sequences = |outcomes: Vec<PublishOutcome>| -> Vec<u64> {
        let sequence = |outcome| match outcome {
            PublishOutcome::Queued { id } => id.sequence.0,
            other => panic!("{other:?}"),
        };
        outcomes.into_iter().map(sequence).collect()
    };
    assert_eq!((sequences(a.unwrap()), sequences(b.unwrap())), (vec![0, 1, 2], vec![3, 4]));
}

#[tokio::test]
async fn errors_of_the_broker_are_typed_and_the_connection_goes_on() {
    let peer = Peer::new().await;
    let (client, mut connection) = peer.client().await;
    let broker = async {
        let incoming = connection.next().await;
        let detail = "create it first".to_owned();
        connection.reply(incoming.correlation, Response::Error { code: Code::NamespaceUnknown, detail }).await;
        let incoming = connection.next().await;
        connection.reply(incoming.correlation, Response::Pong).await;
        let incoming = connection.next().await;
        connection.reply(incoming.correlation, Response::Count(1)).await;
    };
    let ns = namespace();
    let calls = async {
        let refused = client.publish(&ns, message("x")).await.unwrap_err();
        assert!(matches!(refused, Error::Refused { code: Code::NamespaceUnknown, .. }) && !refused.is_passing());
        assert!(refused.to_string().contains("create it first"), "{refused}");
        client.ping().await.unwrap();
        let wrong = client.stats(namespace()).await.unwrap_err();
        assert!(matches!(wrong, Error::Protocol { .. }), "{wrong}");
    };
    tokio::join!(broker, calls);
}

#[tokio::test]
async fn a_lost_answer_is_unconfirmed_where_a_repeat_could_harm_and_repeated_where_not() {
    let peer = Peer::new().await;
    let (client, mut connection) = peer.client().await;
    let mut events = client.events();
    let broker = async {
        for _ in 0..3 {
            connection.next().await;
        }
        drop(connection);
        let mut connection = peer.accept().await;
        for _ in 0..2 {
            let incoming = connection.next().await;
            let answer = match incoming.frame {
                Request::Stats { .. } => Response::Namespaces { rows: Vec::new(), next: None },
                Request::Ping => Response::Pong,
                other => panic!("{other:?} was repeated"),
            };
            connection.reply(incoming.correlation, answer).await;
        }
    };
    let ns = namespace();
    let (published, stats, pinged, ()) =
        tokio::join!(client.publish(&ns, message("x")), client.stats(namespace()), client.ping(), broker);
    pinged.unwrap();
    assert!(matches!(published.unwrap_err(), Error::Unconfirmed { what: "publish", .. }));
    // It was asked again; that the answer has no row is another matter.
    assert!(matches!(stats.unwrap_err(), Error::Protocol { .. }));
    assert!(matches!(events.recv().await.unwrap(), Event::Disconnected { .. }));
    assert!(matches!(events.recv().await.unwrap(), Event::Reconnected));
}

#[tokio::test]
async fn publish_credit_is_honoured() {
    let peer = Peer::new().await;
    let (client, mut connection) = peer.client().await;
    let ns = namespace();
    // Of 4 MiB frames, three fit 16 MiB and a fourth does not, by the envelope's few bytes.
    let batch = || vec![message(&"x".repeat((1 << 20) - 9)); 4];
    let publishing = async {
        let (a, b, c, d) = tokio::join!(
            client.publish_many(&ns, batch()),
            client.publish_many(&ns, batch()),
            client.publish_many(&ns, batch()),
            client.publish_many(&ns, batch()),
        );
        [a, b, c, d].into_iter().for_each(|outcomes| assert_eq!(outcomes.unwrap().len(), 4));
    };
    let broker = async {
        let mut frames = Vec::new();
        for _ in 0..3 {
            frames.push(connection.next().await);
        }
        // What comes behind the three is not the fourth: it waits for credit, and a ping does not.
        let (pinged, incoming) = tokio::join!(client.ping(), async {
            let incoming = connection.next().await;
            assert!(matches!(incoming.frame, Request::Ping), "a publish without credit");
            connection.reply(incoming.correlation, Response::Pong).await;
            incoming
        });
        pinged.unwrap();
        drop(incoming);
        connection.tell(Response::PublishCredit { bytes: frames[0].bytes }).await;
        frames.push(connection.next().await);
        for frame in frames {
            assert!(matches!(frame.frame, Request::Publish(_)));
            connection.reply(frame.correlation, Response::Published(vec![queued(4, 1)])).await;
        }
    };
    tokio::join!(publishing, broker);
}

#[tokio::test]
async fn a_silent_broker_is_left_and_a_live_one_is_not() {
    let peer = Peer::new().await;
    let (client, mut connection) = tokio::join!(Client::connect(peer.options()), peer.accept_idle(Millis(30)));
    let client = client.unwrap();
    // Pings keep coming as long as they are answered.
    for _ in 0..5 {
        let incoming = connection.next().await;
        assert!(matches!(incoming.frame, Request::Ping));
        connection.reply(incoming.correlation, Response::Pong).await;
    }
    // Then they are not, and the client gives the connection up by itself.
    while connection.next_or_end().await.is_some() {}
    let mut connection = peer.accept().await;
    let (pinged, ()) = tokio::join!(client.ping(), async {
        let incoming = connection.next().await;
        connection.reply(incoming.correlation, Response::Pong).await;
    });
    pinged.unwrap();
}

#[tokio::test]
async fn a_client_that_the_broker_took_for_gone_comes_back() {
    let peer = Peer::new().await;
    let (client, mut connection) = peer.client().await;
    // What the broker says to a connection that sent no heartbeat, and to one that sent nothing at all.
    for code in [Code::SessionUnknown, Code::UnexpectedFrame] {
        connection.tell(Response::Closing { code, detail: "too silent".to_owned() }).await;
        connection = peer.accept().await;
        let answered = async {
            let ping = connection.next().await;
            connection.reply(ping.correlation, Response::Pong).await;
        };
        let (pinged, ()) = tokio::join!(client.ping(), answered);
        pinged.unwrap();
    }
}

#[tokio::test]
async fn a_client_that_is_closed_says_so() {
    let peer = Peer::new().await;
    let (client, mut connection) = peer.client().await;
    let other = client.clone();
    let ((), end) = tokio::join!(client.close(), connection.next_or_end());
    assert!(end.is_none(), "{end:?}");
    assert!(matches!(other.ping().await.unwrap_err(), Error::Closed { .. }));

    // Without reconnecting, a lost connection closes the client.
    let (client, connection) = peer.client_with(ClientOptions { reconnect: None, ..peer.options() }).await;
    drop(connection);
    assert!(matches!(client.ping().await.unwrap_err(), Error::Closed { .. }));

    // So does a broker that will never have this client.
    let (client, mut connection) = peer.client().await;
    let detail = "no".to_owned();
    connection.tell(Response::Closing { code: Code::UnsupportedVersion, detail }).await;
    let refused = client.ping().await;
    assert!(matches!(refused, Err(Error::Refused { code: Code::UnsupportedVersion, .. })), "{refused:?}");

    // The last handle closes the connection.
    let (client, mut connection) = peer.client().await;
    drop(client);
    assert!(connection.next_or_end().await.is_none());
}

#[tokio::test]
async fn a_request_waits_for_the_connection_to_come_back_and_not_longer_than_it_may() {
    let peer = Peer::new().await;
    let options = ClientOptions { request_timeout: Duration::from_millis(50), ..peer.options() };
    let address = peer.address();
    let (client, connection) = peer.client_with(options).await;
    drop((peer, connection));
    // The loss may be noticed before the request or by it.
    let error = client.publish(&namespace(), message("x")).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. } | Error::Unconfirmed { .. }), "{error}");
    let error = client.ping().await.unwrap_err();
    assert!(matches!(&error, Error::Unreachable { server, .. } if *server == address), "{error}");
}
